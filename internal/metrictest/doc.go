// Package metrictest reads the values of metrics in tests. It runs no goroutines.
package metrictest
