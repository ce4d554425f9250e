package payload

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/downward"
)

// privateMode is the mode of a service account token or of trust anchors if the reading user or group is known.
const privateMode = 0o600

// Tokens returns service account tokens.
type Tokens interface {
	// Token returns a token of the pod's service account that is bound to the pod. It may return the same token while
	// that is fresh.
	Token(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) ([]byte, error)
}

// Bundles returns the trust anchors of ClusterTrustBundles.
type Bundles interface {
	// TrustBundle returns the certificates that the projection selects, in PEM. An objects.ErrUnknown is usually
	// resolved in a moment.
	TrustBundle(pod *v1.Pod, p *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// Input is the input of Projected.
type Input struct {
	Pod     *v1.Pod
	Objects Objects
	Facts   downward.Facts
	// Tokens and Bundles may be nil: there is no API server then.
	Tokens  Tokens
	Bundles Bundles
}

// Projected returns the files of a projected volume. Of two sources with one path the later one counts. The error
// names all sources that fail.
func Projected(ctx context.Context, src *v1.ProjectedVolumeSource, in Input) (map[string]File, error) {
	s := newSet(src.DefaultMode)
	var errs []error
	for i := range src.Sources {
		if err := s.addSource(ctx, &src.Sources[i], in); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	return s.files, nil
}

func (s set) addSource(ctx context.Context, p *v1.VolumeProjection, in Input) error {
	switch {
	case p.Secret != nil:
		return s.addSecret(p.Secret.Name, p.Secret.Items, ptr.Deref(p.Secret.Optional, false), in.Objects)
	case p.ConfigMap != nil:
		return s.addConfigMap(p.ConfigMap.Name, p.ConfigMap.Items, ptr.Deref(p.ConfigMap.Optional, false), in.Objects)
	case p.DownwardAPI != nil:
		return s.addDownward(p.DownwardAPI.Items, in.Pod, in.Facts)
	case p.ServiceAccountToken != nil:
		return s.addToken(ctx, p.ServiceAccountToken, in)
	case p.ClusterTrustBundle != nil:
		return s.addBundle(p.ClusterTrustBundle, in)
	case p.PodCertificate != nil:
		return errors.New("podCertificate needs an API server, and isn't supported yet")
	default:
		return errors.New("a source of the projected volume is of no known kind")
	}
}

func (s set) addToken(ctx context.Context, p *v1.ServiceAccountTokenProjection, in Input) error {
	if in.Tokens == nil {
		return errors.New("serviceAccountToken: there is no API server")
	}
	token, err := in.Tokens.Token(ctx, in.Pod, p)
	if err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	return s.addPrivate(p.Path, token, in.Pod)
}

func (s set) addBundle(p *v1.ClusterTrustBundleProjection, in Input) error {
	if in.Bundles == nil {
		return errors.New("clusterTrustBundle: there is no API server")
	}
	anchors, err := in.Bundles.TrustBundle(in.Pod, p)
	if err != nil {
		return fmt.Errorf("clusterTrustBundle: %w", err)
	}
	return s.addPrivate(p.Path, anchors, in.Pod)
}

// addPrivate adds a file that only its readers may read, if they are known.
func (s set) addPrivate(path string, data []byte, pod *v1.Pod) error {
	// With an fsGroup the mode becomes 0640: package atomicdir adds the group's bits.
	user, mode := onlyUser(pod), s.mode
	if user != nil || (pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.FSGroup != nil) {
		mode = privateMode
	}
	return s.addOwned(path, data, mode, user)
}

// onlyUser returns the user that all containers of the pod run as, also exited ones; nil if they differ, or if one
// depends on its image (pkg/volume/util.FsUserFrom).
func onlyUser(pod *v1.Pod) *int64 {
	var common *int64
	if pod.Spec.SecurityContext != nil {
		common = pod.Spec.SecurityContext.RunAsUser
	}
	var contexts []*v1.SecurityContext
	for i := range pod.Spec.InitContainers {
		contexts = append(contexts, pod.Spec.InitContainers[i].SecurityContext)
	}
	for i := range pod.Spec.Containers {
		contexts = append(contexts, pod.Spec.Containers[i].SecurityContext)
	}
	for i := range pod.Spec.EphemeralContainers {
		contexts = append(contexts, pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	var only *int64
	for _, c := range contexts {
		user := common
		if c != nil && c.RunAsUser != nil {
			user = c.RunAsUser
		}
		if user == nil || (only != nil && *only != *user) {
			return nil
		}
		only = user
	}
	return only
}
