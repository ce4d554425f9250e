package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/podstream/podstream/test/apiserver"
	"github.com/podstream/podstream/test/devnode"
)

// startCluster starts etcd and an API server in the node's network, gives it the node's address, and returns the node's
// kubeconfig. They end with the node.
func startCluster(ctx context.Context, node *devnode.Node) (kubeconfig string, err error) {
	files := apiserver.Files{Dir: node.Path("cluster"), Node: nodeName}
	if err := errors.Join(os.Mkdir(files.Dir, 0o755), files.Write()); err != nil {
		return "", err
	}
	err = node.InNetwork(func() error {
		out, err := exec.CommandContext(ctx, "ip", "address", "replace", nodeIP+"/24", "dev", "lo").CombinedOutput()
		if err != nil {
			return fmt.Errorf("give the node its address: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for _, p := range []struct {
		name  string
		flags []string
	}{{"etcd", files.EtcdFlags()}, {"kube-apiserver", files.ServerFlags()}} {
		if _, err := node.StartDaemon(p.name, p.flags...); err != nil {
			return "", err
		}
	}
	return files.Kubeconfig(), awaitReady(ctx, node)
}

// awaitReady returns when the API server is ready, which it reports in no other way.
func awaitReady(ctx context.Context, node *devnode.Node) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := newScraper(node).inside
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:forcetypeassert,gosec // It is alone in its network.
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, apiserver.URL+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+apiserver.Token)
		resp, err := client.Do(req)
		if err == nil {
			ready := resp.StatusCode == http.StatusOK
			if err := resp.Body.Close(); err != nil {
				return err
			}
			if ready {
				return nil
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server isn't ready: %w", errors.Join(err, ctx.Err()))
		}
	}
}
