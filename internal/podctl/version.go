package podctl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// buildInfo describes how a program was built.
type buildInfo struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
	// node is the name of a daemon's node.
	node string
	// runtime is podexecd's container runtime.
	runtime runtimeInfo
}

// runtimeInfo is the container runtime's own description, as crictl version has it.
type runtimeInfo struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	APIVersion string `json:"apiVersion"`
}

// versionDocument has null for a daemon that didn't answer, or wasn't asked.
type versionDocument struct {
	Podctl     buildInfo  `json:"podctl"`
	Podconfigd *buildInfo `json:"podconfigd"`
	Podexecd   *buildInfo `json:"podexecd"`
	// Runtime is null also if the container runtime didn't answer podexecd.
	Runtime *runtimeInfo `json:"runtime"`
}

func (t *tool) versionCommand() *cobra.Command {
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of podctl, of both daemons and of the container runtime",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return t.runVersion(cmd.Context(), client) },
	}
	cmd.Flags().BoolVar(&client, "client", false, "only podctl's version; no daemon is asked")
	return cmd
}

// runVersion shows the versions that it gets: one of the daemons may not answer.
func (t *tool) runVersion(ctx context.Context, client bool) error {
	doc := versionDocument{Podctl: buildInfo{Version: t.Version, GoVersion: runtime.Version(), Platform: process.Platform}}
	var configErr, execErr error
	if !client {
		ctx, cancel := t.listContext(ctx)
		defer cancel()
		var wg sync.WaitGroup
		ask := func(of **buildInfo, failed *error, version func(context.Context) (buildInfo, error)) {
			wg.Go(func() {
				info, err := version(ctx)
				if *failed = err; err == nil {
					*of = &info
				}
			})
		}
		ask(&doc.Podconfigd, &configErr, t.podconfigVersion)
		ask(&doc.Podexecd, &execErr, t.podexecVersion)
		wg.Wait()
		if doc.Podexecd != nil && doc.Podexecd.runtime != (runtimeInfo{}) {
			doc.Runtime = &doc.Podexecd.runtime
		}
	}
	if err := t.printVersions(doc); err != nil {
		return err
	}
	return errors.Join(configErr, execErr)
}

func (t *tool) printVersions(doc versionDocument) error {
	if !t.output.IsTable() {
		return t.documents("").Print(doc)
	}
	var lines []string
	for _, program := range []struct {
		name string
		info *buildInfo
	}{{"podctl", &doc.Podctl}, {"podconfigd", doc.Podconfigd}, {"podexecd", doc.Podexecd}} {
		if program.info == nil {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s, %s)", program.name, program.info.Version, program.info.GoVersion, program.info.Platform))
	}
	if r := doc.Runtime; r != nil {
		lines = append(lines, fmt.Sprintf("%s %s (CRI %s)", r.Name, r.Version, r.APIVersion))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(t.Stdout, render.Escape(line)); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// podconfigVersion asks podconfigd for its version.
func (t *tool) podconfigVersion(ctx context.Context) (buildInfo, error) {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return buildInfo{}, err
	}
	defer conn.Close()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).GetVersion(ctx, &podconfigv1.GetVersionRequest{})
	if err != nil {
		return buildInfo{}, conn.explain(err)
	}
	return buildInfo{Version: resp.GetVersion(), GoVersion: resp.GetGoVersion(), Platform: resp.GetPlatform(), node: resp.GetNodeName()}, nil
}

// podexecVersion asks podexecd for its version.
func (t *tool) podexecVersion(ctx context.Context) (buildInfo, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return buildInfo{}, err
	}
	defer conn.Close()
	resp, err := podexecv1.NewPodExecServiceClient(conn).GetVersion(ctx, &podexecv1.GetVersionRequest{})
	if err != nil {
		return buildInfo{}, conn.explain(err)
	}
	return buildInfo{
		Version: resp.GetVersion(), GoVersion: resp.GetGoVersion(), Platform: resp.GetPlatform(), node: resp.GetNodeName(),
		runtime: runtimeInfo{resp.GetRuntimeName(), resp.GetRuntimeVersion(), resp.GetRuntimeApiVersion()},
	}, nil
}
