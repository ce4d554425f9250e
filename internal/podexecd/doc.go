// Package podexecd is the program podexecd: its flags and configuration, and the wiring of the stream, the agent,
// the runtime and the services.
//
// The main of podexecd calls it. It decides nothing about pods: the agent does. It constructs each part before the
// parts that use it. Two parts run before the container runtime has answered: the services, which get the runtime
// through a Backend's Publish, and the producers of wake-ups, whose queue the agent takes from once it exists. Its
// goroutines, one for each server and each part of the agent, have ended when the Program has; the store's ends
// last, so that the last changes of the others are on disk. The pods keep running.
package podexecd
