# Jupyter
