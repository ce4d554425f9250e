// Command waiting prints a line and waits for the end of its input, whatever its name and arguments are.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
