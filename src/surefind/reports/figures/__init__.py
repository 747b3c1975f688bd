"""The paper's figures from our code."""
