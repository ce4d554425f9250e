// Package mounttable reads the kernel's table of mounts. It runs no goroutine, and accesses no file system but proc.
//
// The kernel writes a blank, a tab, a newline and a backslash of a path in octal; Mount has the path itself. All other characters stand
// in the table as they are, such as a no-break space, which strings.Fields takes for the end of a field: a pod's subPath may have one.
//
// A pod can make the line of its subPath as long as it likes: it moves the directory that is mounted below others. Nor is the number of
// mounts its caller's to choose. So no line's content or length is an error, which would keep all pods of the node from ending: the
// beginning of each field is kept, and only of the mounts that the caller selects.
package mounttable
