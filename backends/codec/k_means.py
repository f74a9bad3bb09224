"""K-means as the learnt codecs use it for their codebooks."""

import warnings

import numpy as np
from numpy.typing import NDArray


def refine_means(points: NDArray[np.float64], start: NDArray[np.float64], n_iterations: int) -> NDArray[np.float64]:
    """Moves means, [n, d], to the middle of the points, [n_points, d], that are nearest to them; returns [n, d].

    Means without points are kept.
    """
    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings(action="ignore", category=UserWarning):  # about means without points
        return np.asarray(kmeans2(points, start, iter=n_iterations, minit="matrix")[0])
