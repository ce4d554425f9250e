package kubeadm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// plan is what `podctl migrate --dry-run -o json` prints.
type plan struct {
	Pods []struct {
		Namespace, Name, UID, Action, Reason string
	}
	PodsFrom, ManifestsFrom string
	Notes                   []string
}

// planned is a node's plan, and the tasks that ran when it was made.
type planned struct {
	plan
	m *machine
	// before has the UID of the pod of each running container and sandbox, by its ID.
	before map[string]string
}

// tasks returns the UID of the pod of each running container and sandbox of the node, by its ID.
func tasks(ctx context.Context, m *machine) (map[string]string, error) {
	output, err := m.run(ctx, "bash", "-ec", `set -o pipefail
ids=$(ctr -n k8s.io tasks list | awk '$3 == "RUNNING" { print $1 }')
for id in $ids; do ctr -n k8s.io containers info "$id"; done`)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(output)); ; {
		var info struct {
			ID     string
			Labels map[string]string
		}
		switch err := decoder.Decode(&info); {
		case errors.Is(err, io.EOF) && len(out) > 0:
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("the containers of %s: %w: %s", m.name, err, output)
		}
		uid := info.Labels["io.kubernetes.pod.uid"]
		if info.ID == "" || uid == "" {
			return nil, fmt.Errorf("a container of %s has no pod: %+v", m.name, info)
		}
		out[info.ID] = uid
	}
}

// plan has podctl plan the change of a node from the kubelet to Podstream, while the kubelet runs.
func (c *cluster) plan(m *machine) planned {
	c.t.Helper()
	podctl := filepath.Join(filepath.Dir(c.tools), "bin", "podctl")
	c.step(m, podctl, "migrate", "--dry-run")
	p := planned{m: m}
	if err := json.Unmarshal([]byte(c.step(m, podctl, "migrate", "--dry-run", "-o", "json")), &p.plan); err != nil {
		c.t.Fatal(err)
	}
	if !strings.HasSuffix(p.PodsFrom, apiServer) || p.ManifestsFrom != "/etc/kubernetes/manifests" || len(p.Notes) > 0 {
		c.t.Errorf("the plan of %s is based on pods of %q, manifests of %q, with the notes %q", m.name, p.PodsFrom, p.ManifestsFrom, p.Notes)
	}
	var err error
	if p.before, err = tasks(c.t.Context(), m); err != nil {
		c.t.Fatal(err)
	}
	return p
}

// actions returns the planned actions by the pods' UIDs, and how many pods have each one.
func (p planned) actions() (byUID map[string]string, count map[string]int) {
	byUID, count = map[string]string{}, map[string]int{}
	for _, pod := range p.Pods {
		byUID[pod.UID] = pod.Action
		count[pod.Action]++
	}
	return byUID, count
}

// checkPlan checks that each pod of the node had its plan, and waits until it came true: exactly the sandboxes and containers of the
// pods that were to be kept still run.
func (c *cluster) checkPlan(p planned) {
	c.t.Helper()
	action, count := p.actions()
	restarts := 0
	if p.m == c.control {
		restarts = 4 // The static pods of the control plane.
	}
	if len(p.Pods) != len(action) || count["RESTART"] != restarts || count["KEEP"] == 0 || count["KEEP"]+restarts != len(p.Pods) {
		c.t.Errorf("the plan of %s is %+v; want %d pods to restart, and to keep the others", p.m.name, p.Pods, restarts)
	}
	ran := map[string]bool{}
	for id, uid := range p.before {
		ran[uid] = true
		if action[uid] == "" {
			c.t.Errorf("the plan of %s has no pod %s, whose container %s runs", p.m.name, uid, id)
		}
	}
	for _, pod := range p.Pods {
		if !ran[pod.UID] {
			c.t.Errorf("nothing ran of pod %s/%s of the plan of %s", pod.Namespace, pod.Name, p.m.name)
		}
	}
	kept := 0
	c.eventually("the plan of "+p.m.name+" comes true", func(ctx context.Context) error {
		after, err := tasks(ctx, p.m)
		if err != nil {
			return err
		}
		kept = 0
		for id, uid := range p.before {
			_, runs := after[id]
			if keep := action[uid] == "KEEP"; runs != keep {
				return fmt.Errorf("of pod %s, whose plan is %s, container %.12s runs: %v", uid, action[uid], id, runs)
			}
			if runs {
				kept++
			}
		}
		return nil
	})
	c.t.Logf("%s: %d pods were kept, with %d sandboxes and containers, and %d restarted, as planned", p.m.name, count["KEEP"], kept, count["RESTART"])
}
