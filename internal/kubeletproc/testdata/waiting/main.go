// Command waiting prints a line and waits for the end of its input, whatever its name and arguments are. With the argument listen=PATH it
// listens on that Unix socket.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

func main() {
	for _, arg := range os.Args[1:] {
		if path, is := strings.CutPrefix(arg, "listen="); is {
			if _, err := net.Listen("unix", path); err != nil {
				panic(err)
			}
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
