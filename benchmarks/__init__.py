"""What is measured rather than asserted; `README.md` has the commands and the latest figures."""
