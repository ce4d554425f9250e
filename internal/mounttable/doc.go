// Package mounttable reads the kernel's table of mounts. It runs no goroutine, and accesses no file system but proc.
//
// The kernel writes a blank, a tab, a newline and a backslash of a path in octal; Mount has the path itself. All other characters stand
// in the table as they are, such as a no-break space, which strings.Fields takes for the end of a field: a pod's subPath may have one.
package mounttable
