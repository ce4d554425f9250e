// Package restarts has the operators' requests to restart containers of pods, from RestartPod until they are complete.
//
// A request is accepted once it is on disk, and before any of its containers is stopped. It names the containers to
// replace by their IDs (actions.Requested), so that repeating it after a restart of podexecd stops no container twice.
// Of gives it to the pod's worker with each sync; Settle deletes it once all its containers have successors.
//
// A request for a container whose restart is pending joins that one: so a pod has one entry for each of its containers
// at most. The number of pods with requests and the rate of requests are bounded.
//
// The Agent calls it: Add from the goroutines of requests, the rest from the workers. Requests are stored one after the
// other. It starts no goroutine, reads no runtime and stops no container. Requests.mu comes before the store's lock.
package restarts
