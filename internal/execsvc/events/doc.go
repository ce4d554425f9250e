// Package events tells what happened to pods, in the words of the kubelet's events.
//
// Whoever does something to a pod records it with a Recorder. It counts events that repeat, keeps the last few thousand for podctl, of
// one pod the last few hundred, and hands each to a Sink if there is one, which takes it to the API server. The reasons are the kubelet's
// (pkg/kubelet/events). Recording never waits for anybody. A Recorder runs no goroutines.
package events
