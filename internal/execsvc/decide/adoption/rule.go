package adoption

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Directories are the directories that a kubelet and podexecd keep pods in.
type Directories struct {
	// Pods are the directories of pods' directories, and Logs is --pod-logs-dir. Empty: no pod has directories.
	Pods []string
	Logs string
	// IsDirectory reports whether the path is a directory, and not a link to one.
	IsDirectory func(path string) bool
}

// Has reports whether the pod with these labels has a directory in Pods and one in Logs: the kubelet creates both before the
// pod's sandbox. The labels of another client of the runtime name no such pod. They are checked before they become paths.
func (d Directories) Has(labels map[string]string) bool {
	uid, namespace, name := types.UID(labels[podmeta.PodUIDLabel]), labels[podmeta.PodNamespaceLabel], labels[podmeta.PodNameLabel]
	if len(d.Pods) == 0 || d.Logs == "" || podmeta.CheckUID(uid) != nil ||
		len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false
	}
	has := func(pods string) bool { return d.IsDirectory(filepath.Join(pods, string(uid))) }
	return slices.ContainsFunc(d.Pods, has) && d.IsDirectory(podmeta.LogDir(d.Logs, namespace, name, uid))
}

// Rule is the rule by which podexecd takes sandboxes and containers as its own, with --adopt-kubelet-pods.
type Rule struct {
	// Agent is podexecd's agent ID. Empty: there was no podexecd with this --root-dir yet.
	Agent string
	Directories
}

// mine reports whether podexecd takes a sandbox or container with these labels and annotations.
func (r Rule) mine(labels, annotations map[string]string) bool {
	if agent, marked := annotations[podmeta.AgentAnnotation]; marked {
		return agent != "" && agent == r.Agent
	}
	return r.Has(labels)
}

// Split returns the pods that may be running and that podexecd takes, with the fields that lists have, and the plan of the
// other running sandboxes: podexecd ignores them. Neither is in any order.
func (r Rule) Split(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) (taken []*observed.Pod, ignored []Pod) {
	for _, p := range observed.Assemble(time.Time{}, sandboxes, containers, r.mine) {
		if p.Active() {
			taken = append(taken, p)
		}
	}
	for _, s := range sandboxes {
		if s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY || r.mine(s.GetLabels(), s.GetAnnotations()) {
			continue
		}
		m, a := s.GetMetadata(), s.GetAnnotations()
		ignored = append(ignored, Pod{
			Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Source: a[podmeta.SourceAnnotation],
			Action: Ignore, Reason: r.whyNot(s.GetLabels(), a),
		})
	}
	return taken, ignored
}

// whyNot returns the reason why podexecd takes no sandbox with these labels and annotations.
func (r Rule) whyNot(labels, annotations map[string]string) string {
	if _, marked := annotations[podmeta.AgentAnnotation]; marked {
		return "another podexecd has marked it as its own (" + podmeta.AgentAnnotation + ")"
	}
	if labels[podmeta.PodUIDLabel] == "" {
		return "it has no labels of a pod, so the kubelet did not create it"
	}
	return fmt.Sprintf("it has no directories of a pod in %s and %s, so the kubelet did not create it", strings.Join(r.Pods, " or "), r.Logs)
}
