// Package inside tells what a process finds of the world that its container gives it: identity, confinement, limits, environment, mounts,
// files and names. The sample program's command inspect prints it, and tests on the other side of the container's wall read it.
//
// It only reads, in the process that calls it, and leaves out what it can't read: Report.Errors says why.
package inside
