package podctl

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/daemon/process"
)

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
	doc := versionDocument{Version: t.Version, GoVersion: runtime.Version(), Platform: process.Platform}
	if !t.output.isTable() {
		return (&documents{out: t.Stdout, output: t.output}).print(doc)
	}
	if _, err := io.WriteString(t.Stdout, process.VersionText("podctl", t.Version)); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
