// Package render prints podctl's answers: tables with aligned columns, and JSON and YAML documents.
//
// Pods are written by others than the administrator, so every text that reaches the terminal passes Table, Documents or
// Escape, which replace control and invisible characters.
//
// It starts no goroutines and makes no calls. Package podctl calls it.
package render
