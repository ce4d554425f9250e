package podctl

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArguments is the Args of a command that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes flags only, and no argument such as %q", cmd.CommandPath(), args[0])
}

// oneFile checks the arguments of a command that takes one file.
func oneFile(args []string) error {
	if len(args) == 1 {
		return nil
	}
	return fmt.Errorf("want one file; there are %d arguments", len(args))
}
