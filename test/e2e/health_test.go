package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// Both daemons return the version that they were built with. The metrics port serves /healthz and /readyz:
// podconfigd isn't ready while its manifest directory is missing, and podexecd while the runtime is down.
func TestVersionAndHealthPages(t *testing.T) {
	node := startNode(t, devnode.Sim)
	r := newRig(t, node)
	pages := map[*devnode.Process]string{}
	await := func(process *devnode.Process, path, want string) {
		t.Helper()
		r.eventually(process.Name+" answers "+path+" with "+want, func() error {
			if got, err := page(pages[process], path); err != nil || got != want {
				return fmt.Errorf("it is %q, %w", got, err)
			}
			return nil
		})
	}
	for process, socket := range map[*devnode.Process]string{r.Podconfigd: r.ConfigSocket(), r.Podexecd: r.ExecSocket()} {
		check(t, devnode.WaitServing(t.Context(), process, "unix://"+socket))
		check(t, process.Stop())
		pages[process] = freeAddress(t)
		process.Args = append(process.Args, "--metrics-address", pages[process])
	}
	away := r.Manifests + ".away"
	check(t, os.Rename(r.Manifests, away))
	check(t, node.Runtime().Kill())
	defer func() { _ = node.Runtime().Start() }() // It fails if the runtime runs.
	check(t, r.Podconfigd.Start())
	check(t, r.Podexecd.Start())
	for process, want := range map[*devnode.Process]string{r.Podconfigd: "podconfigd.source/file, podconfigd.sources", r.Podexecd: "podexecd.runtime"} {
		await(process, "/readyz", "503 not ready: "+want+"\n")
		await(process, "/healthz", "200 ok")
	}
	check(t, os.Rename(away, r.Manifests))
	check(t, node.Runtime().Start())
	check(t, node.WaitReady(t.Context()))
	for _, process := range []*devnode.Process{r.Podconfigd, r.Podexecd} {
		await(process, "/readyz", "200 ok")
		await(process, "/healthz", "200 ok")
	}
	config, err := r.Config.GetVersion(t.Context(), &podconfigv1.GetVersionRequest{})
	check(t, err)
	execute, err := r.Exec.GetVersion(t.Context(), &podexecv1.GetVersionRequest{})
	check(t, err)
	if config.GetVersion() == "" || config.GetVersion() != execute.GetVersion() {
		t.Errorf("podconfigd is %q, podexecd %q; want one version", config.GetVersion(), execute.GetVersion())
	}
	if config.GetNodeName() != r.Name || execute.GetNodeName() != r.Name {
		t.Errorf("the nodes are %q and %q; want %s", config.GetNodeName(), execute.GetNodeName(), r.Name)
	}
}

// page returns the status code and the text of a page.
func page(address, path string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, text), err
}
