package runtime

import (
	"context"
	"os"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// maxAdoptions bounds the pods of a kubelet that are adopted: more than any node has.
const maxAdoptions = 1 << 16

// adoptions are the pods of a kubelet that were adopted. A pod stays adopted after its directory is removed, until its
// sandboxes are removed.
type adoptions struct {
	mu sync.Mutex
	// names has NAMESPACE/NAME by UID.
	names map[types.UID]string
}

// mine reports whether these labels and annotations are of a container or sandbox of this agent.
func (r *Runtime) mine(labels, annotations map[string]string) bool {
	if agent, marked := annotations[podmeta.AgentAnnotation]; marked {
		return agent == r.cfg.Agent
	}
	return r.cfg.AdoptKubelet && r.adopts(labels)
}

// adopts reports whether a sandbox or container without an agent's mark is one of a kubelet that had this agent's
// directories.
func (r *Runtime) adopts(labels map[string]string) bool {
	uid, name := types.UID(labels[podmeta.PodUIDLabel]), labels[podmeta.PodNamespaceLabel]+"/"+labels[podmeta.PodNameLabel]
	r.adopted.mu.Lock()
	defer r.adopted.mu.Unlock()
	if known, ok := r.adopted.names[uid]; ok {
		return known == name
	}
	if len(r.adopted.names) >= maxAdoptions || !r.directories().Has(labels) {
		return false
	}
	if r.adopted.names == nil {
		r.adopted.names = map[types.UID]string{}
	}
	r.adopted.names[uid] = name
	r.log.Info("adopting a pod of the kubelet", "pod", name, "uid", uid)
	return true
}

// directories returns this agent's.
func (r *Runtime) directories() adoption.Directories {
	return adoption.Directories{Pods: r.cfg.PodDirs.Roots(), Logs: r.cfg.LogsDir, IsDirectory: isDirectory}
}

func isDirectory(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// NotAdopted returns NAMESPACE/NAME of the pods of a kubelet that have directories of this agent and that it doesn't adopt,
// in order. Their volumes would be removed as those of pods that are gone.
func (r *Runtime) NotAdopted(ctx context.Context) ([]string, error) {
	if r.cfg.AdoptKubelet {
		return nil, nil
	}
	sandboxes, err := inParts(ctx, r, "sandboxes", r.allSandboxes, r.sandboxesByState)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range sandboxes {
		_, marked := s.GetAnnotations()[podmeta.AgentAnnotation]
		if !marked && s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY && r.directories().Has(s.GetLabels()) {
			out = append(out, s.GetLabels()[podmeta.PodNamespaceLabel]+"/"+s.GetLabels()[podmeta.PodNameLabel])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
