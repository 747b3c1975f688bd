"""Encoders as ONNX files: exported, made smaller, and run by ONNX Runtime instead of torch."""
