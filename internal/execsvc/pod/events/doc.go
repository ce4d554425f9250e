// Package events records events of pods, with the kubelet's reasons (pkg/kubelet/events).
//
// A Recorder counts repeated events. It keeps the last few thousand for podctl, and of one pod the last few hundred,
// and passes each to a Sink if there is one, which sends it to the API server. Recording never blocks. A Recorder runs
// no goroutines.
package events
