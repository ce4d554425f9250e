package podctl

import (
	"errors"

	"github.com/spf13/pflag"
)

// errMirrorsWatched is the error of --mirrors with --watch.
var errMirrorsWatched = errors.New("--mirrors is for a list: a watch shows the pods that run, and nothing runs as a mirror pod")

// addMirrorsFlag adds --mirrors. A mirror pod has the name of its static pod, and only the static pod runs, so a list has
// one line for both.
func addMirrorsFlag(flags *pflag.FlagSet, mirrors *bool) {
	flags.BoolVar(mirrors, "mirrors", false, "show the mirror pods of static pods too, which represent them at the API server")
}
