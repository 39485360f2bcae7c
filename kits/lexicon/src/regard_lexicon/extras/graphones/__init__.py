"""Joint n-grams of source and target tokens (graphones)."""

__all__: list[str] = []
