// Package tracing exports the spans of a daemon to an OpenTelemetry collector. Its flags are daemon.Tracing.
//
// podconfigd and podexecd call it. It is a package of its own because podctl reads podexecd's flags: with the exporter in package
// daemon, podctl would have 0.4 MB more. The exporter's goroutines run until the function that Provider returns is called. It
// logs nothing.
package tracing
