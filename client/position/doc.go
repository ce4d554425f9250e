// Package position compares how far pods follow the cluster that they are from: promise G11 of podconfig.proto.
//
// A Position belongs to one source and one cluster. Two of them are compared by the order of Kubernetes' resource
// versions, only within one cluster and one epoch. The package is pure: values and their comparison. podconfigd uses it
// to hold a source for a consumer that is ahead, and package client to refuse what a podconfigd that is behind sends.
package position
