// Package restmetrics has the metrics of client-go's requests to an API server, rest_client_*, under the names, labels and
// buckets of k8s.io/component-base/metrics/prometheus/restclient.
//
// client-go has one set of metrics for the whole process, so this package has too. It doesn't use component-base's
// package, because that brings a registry of its own, with the metrics of the process and of Go a second time. It starts
// no goroutines.
package restmetrics
