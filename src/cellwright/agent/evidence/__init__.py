"""What an answer rests on: outputs gathered, numbers traced to them, charts looked over by rule.

Knows sessions and their outputs, and nothing of models or patterns: it decides what stands, not what is said about it.
"""
