package podctl

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildVersion is the version of the module that this program was built from, or its commit.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

type versionDocument struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func (t *tool) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of podctl",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return t.printVersion() },
	}
}

func (t *tool) printVersion() error {
	doc := versionDocument{Version: t.Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !t.output.isTable() {
		return (&documents{out: t.Stdout, output: t.output}).print(doc)
	}
	if _, err := fmt.Fprintf(t.Stdout, "podctl %s (%s, %s)\n", doc.Version, doc.GoVersion, doc.Platform); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
