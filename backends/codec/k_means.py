"""K-means as the learnt codecs use it for their codebooks."""

import warnings

import numpy as np
from numpy.typing import NDArray


def refine_means(points: NDArray[np.float64], start: NDArray[np.float64], n_iterations: int) -> NDArray[np.float64]:
    """Improves means, [n, d], of points, [n_points, d], by iterations of k-means, and returns them, [n, d].

    A mean that is the nearest one of no point stays as it is.
    """
    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings(action="ignore", category=UserWarning):  # about means without points
        return np.asarray(kmeans2(points, start, iter=n_iterations, minit="matrix")[0])
