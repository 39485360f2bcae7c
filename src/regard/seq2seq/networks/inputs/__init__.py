"""The inputs of a network: embeddings of tokens, vectors and images."""

__all__: list[str] = []
