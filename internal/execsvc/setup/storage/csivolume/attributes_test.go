package csivolume

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/roottest"
)

// TestPodInfo: the driver gets what its CSIDriver asks for: the pod, and tokens as attributes or as secrets.
func TestPodInfo(t *testing.T) {
	roottest.Need(t, "mount")
	const tokens = "csi.storage.k8s.io/serviceAccount.tokens"
	info := func(ephemeral string) map[string]string {
		return map[string]string{
			"csi.storage.k8s.io/pod.name": "web", "csi.storage.k8s.io/pod.namespace": "shop", "csi.storage.k8s.io/pod.uid": podUID,
			"csi.storage.k8s.io/serviceAccount.name": "seller", "csi.storage.k8s.io/ephemeral": ephemeral,
		}
	}
	for name, tc := range map[string]struct {
		spec      storagev1.CSIDriverSpec
		inline    bool
		want      map[string]string
		inSecrets bool
	}{
		"nothing":     {want: map[string]string{"tier": "fast"}},
		"pod":         {spec: storagev1.CSIDriverSpec{PodInfoOnMount: ptr.To(true)}, want: merged(info("false"), map[string]string{"tier": "fast"})},
		"inline":      {inline: true, spec: storagev1.CSIDriverSpec{PodInfoOnMount: ptr.To(true)}, want: merged(info("true"), map[string]string{"size": "1"})},
		"not the pod": {inline: true, want: map[string]string{"size": "1"}},
		"tokens": {
			spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}, {}}},
			want: map[string]string{"tier": "fast"},
		},
		"secret tokens": {
			spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}, {}}, ServiceAccountTokenInSecrets: ptr.To(true)},
			want: map[string]string{"tier": "fast"}, inSecrets: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t)
			n.cfg.Tokens = token
			n.restart()
			tc.spec.VolumeLifecycleModes = both
			n.spec = &tc.spec
			p, spec := pod()
			if tc.inline {
				p, spec = inlinePod()
			}
			_, _, publishing := n.resolved(p, spec)
			must(t, n.Publish(t.Context(), publishing))
			got := n.one().(*csipb.NodePublishVolumeRequest)
			from := got.GetVolumeContext()
			if tc.inSecrets {
				from = got.GetSecrets()
			}
			text, rest := from[tokens], maps.Clone(got.GetVolumeContext())
			delete(rest, tokens)
			if !reflect.DeepEqual(rest, tc.want) {
				t.Errorf("attributes %v; want %v", rest, tc.want)
			}
			if len(tc.spec.TokenRequests) > 0 {
				var all map[string]authenticationv1.TokenRequestStatus
				must(t, json.Unmarshal([]byte(text), &all))
				if len(all) != 2 || all["vault"].Token != "token of shop/web/"+podUID+`/seller for "vault"` || all[""].Token == "" {
					t.Errorf("tokens: %v", all)
				}
				if _, there := got.GetVolumeContext()[tokens]; there == tc.inSecrets {
					t.Errorf("tokens are attributes: %t", there)
				}
			}
			must(t, n.Unpublish(t.Context(), publishing))
		})
	}
}

// TestTokenInError: a driver's error doesn't show a token that it got as an attribute.
func TestTokenInError(t *testing.T) {
	n := newBench(t)
	n.cfg.Tokens = token
	n.restart()
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}
	_, _, p := n.resolved(pod())
	n.driver.fails(status.Error(codes.Unauthenticated, "bad token of shop/web/"+podUID+`/seller for "vault", sorry`))
	err := n.Publish(t.Context(), p)
	if want := "rpc error: code = Unauthenticated desc = bad ***stripped***, sorry"; err == nil || err.Error() != want || storage.OutcomeOf(err) != storage.Final {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestMissing: without a secret or a token no call is made, and nothing is left in the pod's directory.
func TestMissing(t *testing.T) {
	n := newBench(t, canStage)
	n.pv.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "vault", Name: "a"}
	n.pv.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "vault", Name: "b"}
	_, s, p := n.resolved(pod())
	err := n.Stage(t.Context(), s)
	n.isNotSent(err)
	if !strings.HasPrefix(err.Error(), "fetching NodeStageSecretRef vault/a failed: ") {
		t.Error(err)
	}
	n.isNotSent(n.Publish(t.Context(), p))
	n.pv.Spec.CSI.NodePublishSecretRef = nil
	n.cfg.Tokens = func(_ context.Context, _ TokenRequest) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{}, errors.New("no API server")
	}
	n.restart()
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{}}}
	_, _, p = n.resolved(pod())
	n.isNotSent(n.Publish(t.Context(), p))
	isGone(t, filepath.Join(n.kubelet, "pods", podUID), filepath.Join(n.kubelet, "plugins/kubernetes.io"))
}

// TestFSGroup: the group of a volume is changed by the driver if it can, and otherwise here, by the policy of its CSIDriver.
func TestFSGroup(t *testing.T) {
	roottest.Need(t, "mount and chown")
	policy := func(p storagev1.FSGroupPolicy) *storagev1.CSIDriverSpec {
		return &storagev1.CSIDriverSpec{FSGroupPolicy: &p, VolumeLifecycleModes: both}
	}
	many := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	for name, tc := range map[string]struct {
		spec      *storagev1.CSIDriverSpec
		change    func(*v1.PersistentVolume)
		readOnly  bool
		delegated bool
		inline    string
		want      bool
	}{
		"default":                  {want: true},
		"default, no fsType":       {change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = "" }},
		"default, no access modes": {change: func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = nil }},
		"default, many writers":    {change: func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = many }},
		"ReadWriteOncePod": {change: func(pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}, want: true},
		"ReadWriteOnceWithFSType":     {spec: policy(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), want: true},
		"None":                        {spec: policy(storagev1.NoneFSGroupPolicy)},
		"File, many, no fsType":       {spec: policy(storagev1.FileFSGroupPolicy), change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType, pv.Spec.AccessModes = "", many }, want: true},
		"File, read-only":             {spec: policy(storagev1.FileFSGroupPolicy), readOnly: true},
		"inline":                      {spec: policy(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), inline: "xfs", want: true},
		"inline, no fsType":           {spec: policy(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), inline: "-"},
		"the driver's":                {delegated: true},
		"the driver's, whose is None": {spec: policy(storagev1.NoneFSGroupPolicy), delegated: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t, canStage)
			if tc.delegated {
				n = newBench(t, canStage, canGroup)
			}
			n.spec = tc.spec
			if tc.change != nil {
				tc.change(n.pv)
			}
			p, spec := pod()
			if tc.inline != "" {
				p, spec = inlinePod()
				if tc.inline != "-" {
					spec.CSI.FSType = &tc.inline
				}
			} else {
				spec.PersistentVolumeClaim.ReadOnly = tc.readOnly
			}
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321)}
			v, s, publishing := n.resolved(p, spec)
			if v.Stages {
				must(t, n.Stage(t.Context(), s))
			}
			must(t, n.Publish(t.Context(), publishing))
			info, err := os.Stat(filepath.Join(n.driver.base, "canary"))
			must(t, err)
			if gid := info.Sys().(*syscall.Stat_t).Gid; (gid == 4321) != tc.want {
				t.Errorf("the volume's group is %d; changed here: %t", gid, tc.want)
			}
			for _, r := range n.driver.taken() {
				group := r.(interface {
					GetVolumeCapability() *csipb.VolumeCapability
				}).GetVolumeCapability().GetMount().GetVolumeMountGroup()
				if (group == "4321") != tc.delegated || group != "" && group != "4321" {
					t.Errorf("%T has the group %q; want it: %t", r, group, tc.delegated)
				}
			}
			must(t, n.Unpublish(t.Context(), publishing))
			if v.Stages {
				must(t, n.Unstage(t.Context(), s))
			}
		})
	}
}

// TestOutcomes: what an error means for the volume is decided by the driver's answer, or by its absence.
func TestOutcomes(t *testing.T) {
	n := newBench(t, canStage, canExpand)
	_, s, p := n.resolved(pod())
	calls := map[string]func(context.Context) error{
		"stage": func(ctx context.Context) error { return n.Stage(ctx, s) }, "publish": func(ctx context.Context) error { return n.Publish(ctx, p) },
		"unpublish": func(ctx context.Context) error { return n.Unpublish(ctx, p) }, "unstage": func(ctx context.Context) error { return n.Unstage(ctx, s) },
		"expand": func(ctx context.Context) error { return n.Expand(ctx, p, ExpandArgs(1)) },
	}
	check := func(err error, want storage.Outcome, what string) {
		t.Helper()
		if got := storage.OutcomeOf(err); err == nil || got != want {
			t.Errorf("%s: %v has the outcome %d; want %d", what, err, got, want)
		}
	}
	for name, call := range calls {
		for code, want := range map[codes.Code]storage.Outcome{
			codes.InvalidArgument: storage.Final, codes.NotFound: storage.Final, codes.Internal: storage.Final, codes.FailedPrecondition: storage.Final,
			codes.Aborted: storage.Uncertain, codes.DeadlineExceeded: storage.Uncertain, codes.Unavailable: storage.Uncertain,
			codes.AlreadyExists: storage.Uncertain, codes.ResourceExhausted: storage.Uncertain,
		} {
			n.driver.fails(status.Error(code, "broken"))
			err := call(t.Context())
			check(err, want, name+": "+code.String())
			if err != nil && !strings.HasSuffix(err.Error(), "rpc error: code = "+code.String()+" desc = broken") {
				t.Errorf("%s: the text is %q", name, err)
			}
		}
		// The caller gives up: the driver still executes the call.
		entered, hang := make(chan struct{}), make(chan struct{})
		n.driver.does(func(proto.Message) error { close(entered); <-hang; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		check(call(ctx), storage.Unanswered, name+": given up")
		close(hang)
	}
	n.driver.taken()
	n.driver.stop()
	for name, call := range calls {
		check(call(t.Context()), storage.NotSent, name+": no socket")
	}
	n.isNotSent(n.Stage(t.Context(), s))
}

// TestFinalLeavesNothing: package storage forgets a volume that the driver says it didn't make, so nothing may be left. It may
// not forget one of which that isn't certain.
func TestFinalLeavesNothing(t *testing.T) {
	n := newBench(t, canStage)
	_, s, p := n.resolved(pod())
	n.driver.fails(status.Error(codes.Internal, "broken"))
	if n.Stage(t.Context(), s) == nil || n.Publish(t.Context(), p) == nil {
		t.Fatal("it succeeded")
	}
	if left, err := os.ReadDir(n.dir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	isGone(t, filepath.Dir(n.staging()))
	n.driver.fails(status.Error(codes.Aborted, "busy"))
	if n.Stage(t.Context(), s) == nil || n.Publish(t.Context(), p) == nil {
		t.Fatal("it succeeded")
	}
	data(t, n.dir())
	data(t, filepath.Dir(n.staging()))
}

// TestUnsupported: a driver isn't called for what it can't do.
func TestUnsupported(t *testing.T) {
	n := newBench(t)
	_, _, p := n.resolved(pod())
	if err := n.Expand(t.Context(), p, ExpandArgs(1)); !errors.Is(err, ErrNoExpand) || storage.OutcomeOf(err) != storage.NotSent {
		t.Error(err)
	}
	if _, err := n.Stats(t.Context(), p); !errors.Is(err, ErrNoStats) {
		t.Error(err)
	}
	if all := n.driver.taken(); len(all) > 0 {
		t.Errorf("calls: %v", all)
	}
}

// TestGroupThatHangs: a volume whose files can't be changed counts as published. It is undone meanwhile.
func TestGroupThatHangs(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t)
	started, ended := make(chan struct{}), make(chan error, 1)
	n.groups.set = func(ctx context.Context, _ ownership.Request) error {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	p, spec := pod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321), FSGroupChangePolicy: ptr.To(v1.FSGroupChangeOnRootMismatch)}
	_, _, publishing := n.resolved(p, spec)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	isUncertain(t, n.Publish(ctx, publishing), "applyFSGroup failed for vol "+handle+": the group of its files is still being changed")
	must(t, n.Unpublish(t.Context(), publishing))
	select {
	case err := <-ended:
		if !errors.Is(err, errStopped) {
			t.Errorf("the change ended with %v", err)
		}
	default:
		t.Error("the change still runs after Unpublish")
	}
}

// TestChangePolicy: the change has the pod's group and policy.
func TestChangePolicy(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t)
	var got ownership.Request
	n.groups.set = func(_ context.Context, r ownership.Request) error {
		got = r
		return nil
	}
	p, spec := pod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321), FSGroupChangePolicy: ptr.To(v1.FSGroupChangeOnRootMismatch)}
	_, _, publishing := n.resolved(p, spec)
	must(t, n.Publish(t.Context(), publishing))
	if want := (ownership.Request{Dir: n.mount(), Group: 4321, Policy: v1.FSGroupChangeOnRootMismatch}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	must(t, n.Unpublish(t.Context(), publishing))
}
