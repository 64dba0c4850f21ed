"""Who may start: money and budgets around a plan."""
