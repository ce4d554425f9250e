// Package inside reports the environment of a process in its container: identity, confinement, limits, environment
// variables, mounts, files and names. The sample program's command inspect prints it, and tests outside of the
// container read it.
//
// It only reads, in the process that calls it, and leaves out values that it can't read: Report.Errors has the
// reasons.
package inside
