"""A page of pictures, figures and tables for a browser, and what a notebook shows."""
