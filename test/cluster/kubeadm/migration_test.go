package kubeadm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// running is a container of an API pod: what must not change when the agent does.
type running struct {
	id, started string
	restarts    int
}

// podList is what the test reads of `kubectl get pods -o json`.
type podList struct {
	Items []struct {
		Metadata struct {
			Namespace, Name, UID string
			Annotations          map[string]string
		}
		Status struct {
			ContainerStatuses []struct {
				Name, ContainerID string
				Ready             bool
				RestartCount      int
				State             struct{ Running struct{ StartedAt string } }
			}
		}
	}
}

const mirrorAnnotation = "kubernetes.io/config.mirror"

// pods returns the pods at the API server.
func (c *cluster) pods(ctx context.Context) (*podList, error) {
	output, err := c.control.run(ctx, "kubectl", "get", "pods", "-A", "-o", "json")
	if err != nil {
		return nil, err
	}
	list := &podList{}
	return list, json.Unmarshal([]byte(output), list)
}

// apiContainers returns the containers of all pods that aren't mirror pods, by NAMESPACE/POD/CONTAINER. All must be ready.
func (c *cluster) apiContainers(ctx context.Context) (map[string]running, error) {
	list, err := c.pods(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]running{}
	for _, p := range list.Items {
		if p.Metadata.Annotations[mirrorAnnotation] != "" {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			name := p.Metadata.Namespace + "/" + p.Metadata.Name + "/" + s.Name
			if !s.Ready {
				return nil, fmt.Errorf("%s isn't ready", name)
			}
			out[name] = running{s.ContainerID, s.State.Running.StartedAt, s.RestartCount}
		}
	}
	return out, nil
}

// replaceAgent stops a node's agent, installs another one, and starts it. It waits until the node is ready with that one's version.
func (c *cluster) replaceAgent(m *machine, agent string) {
	c.t.Helper()
	c.step(m, "systemctl", "stop", "kubelet")
	for name, path := range c.agentPrograms(agent) {
		c.step(m, "install", "-m", "0755", path, "/usr/bin/"+name)
	}
	c.step(m, "systemctl", "start", "kubelet")
	c.eventually(m.name+" is ready with the agent "+agent, func(ctx context.Context) error {
		output, err := c.control.run(ctx, "kubectl", "get", "node", m.name,
			"-o", `jsonpath={.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].status}`)
		if version, ready, _ := strings.Cut(output, " "); err == nil && (ready != "True" || strings.HasSuffix(version, "-podstream") != (agent == "podstream")) {
			err = fmt.Errorf("the node is %s", output)
		}
		return err
	})
}

// awaitMirrorPods waits until each static pod of the control plane's node has one mirror pod, which is ready.
func (c *cluster) awaitMirrorPods() {
	c.t.Helper()
	c.eventually("each static pod has its mirror pod", func(ctx context.Context) error {
		list, err := c.pods(ctx)
		if err != nil {
			return err
		}
		var mirrors []string
		for _, p := range list.Items {
			if p.Metadata.Annotations[mirrorAnnotation] == "" {
				continue
			}
			for _, s := range p.Status.ContainerStatuses {
				if !s.Ready {
					return fmt.Errorf("%s isn't ready", p.Metadata.Name)
				}
			}
			mirrors = append(mirrors, p.Metadata.Name)
		}
		slices.Sort(mirrors)
		if want := []string{"etcd-control", "kube-apiserver-control", "kube-controller-manager-control", "kube-scheduler-control"}; !slices.Equal(mirrors, want) {
			err = fmt.Errorf("the mirror pods are %v", mirrors)
		}
		return err
	})
}

// awaitNoOrphans waits until each sandbox that runs on the node is of a pod of the API server: a mirror pod has the UID of its
// static pod as an annotation.
func (c *cluster) awaitNoOrphans(m *machine) {
	c.t.Helper()
	c.eventually("no orphan runs on "+m.name, func(ctx context.Context) error {
		list, err := c.pods(ctx)
		if err != nil {
			return err
		}
		known := map[string]bool{}
		for _, p := range list.Items {
			known[p.Metadata.UID], known[p.Metadata.Annotations[mirrorAnnotation]] = true, true
		}
		found, err := tasks(ctx, m)
		if err != nil {
			return err
		}
		for id, uid := range found {
			if !known[uid] {
				return fmt.Errorf("container %.12s of pod %s runs", id, uid)
			}
		}
		return nil
	})
}

// TestMigration: Podstream takes a kubelet's place on both nodes, and the kubelet takes it back. The containers of API pods go on,
// and what happens to each pod is what podctl has planned.
func TestMigration(t *testing.T) {
	c := startCluster(t, "kubelet")
	c.kubectl("-n", "kube-system", "wait", "--for=condition=Available", "deployment/coredns", "--timeout=180s")
	c.useService()
	c.awaitMirrorPods()
	before, err := c.apiContainers(t.Context())
	if err != nil || len(before) < 6 {
		t.Fatalf("containers of API pods: %v, %v", before, err)
	}
	for _, agent := range []string{"podstream", "kubelet"} {
		var plans []planned
		for _, m := range []*machine{c.worker, c.control} {
			if agent == "podstream" {
				plans = append(plans, c.plan(m))
			}
			c.replaceAgent(m, agent)
		}
		c.awaitMirrorPods()
		var after map[string]running
		c.eventually("all containers are ready", func(ctx context.Context) (err error) {
			after, err = c.apiContainers(ctx)
			return err
		})
		var table strings.Builder
		for _, name := range slices.Sorted(maps.Keys(before)) {
			verdict := "the same"
			if before[name] != after[name] {
				verdict = fmt.Sprintf("now %+v", after[name])
				t.Errorf("with the agent %s, %s was %+v, and is %+v", agent, name, before[name], after[name])
			}
			id := strings.TrimPrefix(before[name].id, "containerd://")
			fmt.Fprintf(&table, "%-60s %.12s %s restarts=%d: %s\n", name, id, before[name].started, before[name].restarts, verdict)
		}
		if len(after) != len(before) {
			t.Errorf("with the agent %s there are %d containers of API pods, and were %d", agent, len(after), len(before))
		}
		t.Logf("after the change to the agent %s:\n%s", agent, table.String())
		for _, m := range []*machine{c.worker, c.control} {
			c.awaitNoOrphans(m)
		}
		for _, p := range plans {
			c.checkPlan(p)
		}
		if agent == "podstream" {
			// The new agent ends and starts pods, and they are the ones to keep from here.
			c.kubectl("rollout", "restart", "deployment/web")
			c.useService()
			c.eventually("the former pods are gone", func(ctx context.Context) error {
				before, err = c.apiContainers(ctx)
				if err == nil && len(before) != len(after) {
					err = fmt.Errorf("containers %v", before)
				}
				return err
			})
		}
	}
}
