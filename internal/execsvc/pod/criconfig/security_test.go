package criconfig

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

func securityOf(t *testing.T, psc *v1.PodSecurityContext, sc *v1.SecurityContext, image *ImageUser) *runtimeapi.LinuxContainerSecurityContext {
	t.Helper()
	pod := webPod()
	pod.Spec.SecurityContext = psc
	got, err := containerSecurityContext(&ContainerInput{Pod: pod, Container: &v1.Container{SecurityContext: sc}, ImageUser: image})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestContainerSecurityContextByDefault(t *testing.T) {
	got := securityOf(t, nil, nil, nil)
	want := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: nodesUsers()},
		Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
		MaskedPaths:      slices.Concat(maskedPaths, thermalPaths()),
		ReadonlyPaths:    readonlyPaths,
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("security context (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/sys/firmware", "/sys/devices/virtual/powercap"} {
		if !slices.Contains(got.GetMaskedPaths(), path) {
			t.Errorf("%s isn't masked", path)
		}
	}
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger"} {
		if !slices.Contains(got.GetReadonlyPaths(), path) {
			t.Errorf("%s isn't read-only", path)
		}
	}
}

func TestContainerSecurityContextInFull(t *testing.T) {
	got := securityOf(t, &v1.PodSecurityContext{
		RunAsUser: ptr.To[int64](1), RunAsGroup: ptr.To[int64](2), FSGroup: ptr.To[int64](3), SupplementalGroups: []int64{4},
		SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict),
		SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile:          &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined},
	}, &v1.SecurityContext{
		ReadOnlyRootFilesystem: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false),
		Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		ProcMount:    ptr.To(v1.UnmaskedProcMount),
		RunAsUser:    ptr.To[int64](11),
	}, &ImageUser{UID: ptr.To[int64](99)})
	want := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: nodesUsers()},
		ReadonlyRootfs:   true, NoNewPrivs: true,
		Capabilities: &runtimeapi.Capability{AddCapabilities: []string{"NET_ADMIN"}, DropCapabilities: []string{"ALL"}},
		RunAsUser:    &runtimeapi.Int64Value{Value: 11}, RunAsGroup: &runtimeapi.Int64Value{Value: 2},
		SupplementalGroups:       []int64{3, 4},
		SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		Apparmor:                 &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("security context (-want +got):\n%s", diff)
	}
}

func TestContainerProfilesOverrideThePods(t *testing.T) {
	got := securityOf(t, &v1.PodSecurityContext{
		SeccompProfile:  &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined},
		AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined},
	}, &v1.SecurityContext{
		SeccompProfile:  &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault},
	}, nil)
	if p := got.GetSeccomp().GetProfileType(); p != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("seccomp %v", p)
	}
	if p := got.GetApparmor().GetProfileType(); p != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("AppArmor %v", p)
	}
}

func TestUser(t *testing.T) {
	uid := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct {
		pod   v1.PodSecurityContext
		own   v1.SecurityContext
		image *ImageUser
		// want is "user:group" or "name:group", or a part of the error after "!".
		want string
	}{
		"nothing known":                {want: ":"},
		"the image's uid":              {image: &ImageUser{UID: uid(7)}, want: "7:"},
		"the image's user":             {image: &ImageUser{Name: "www"}, want: "www:"},
		"the pod's beats the image's":  {pod: v1.PodSecurityContext{RunAsUser: uid(1)}, image: &ImageUser{Name: "www"}, want: "1:"},
		"its own beats the pod's":      {pod: v1.PodSecurityContext{RunAsUser: uid(1)}, own: v1.SecurityContext{RunAsUser: uid(2)}, want: "2:"},
		"root by its own word":         {pod: v1.PodSecurityContext{RunAsUser: uid(1)}, own: v1.SecurityContext{RunAsUser: uid(0)}, want: "0:"},
		"group with the image's user":  {pod: v1.PodSecurityContext{RunAsGroup: uid(5)}, image: &ImageUser{Name: "www"}, want: "www:5"},
		"group beats the pod's":        {pod: v1.PodSecurityContext{RunAsUser: uid(1), RunAsGroup: uid(5)}, own: v1.SecurityContext{RunAsGroup: uid(6)}, want: "1:6"},
		"group without any user":       {pod: v1.PodSecurityContext{RunAsGroup: uid(5)}, want: "!runAsGroup"},
		"non-root, by uid":             {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: uid(1)}, want: "1:"},
		"non-root, uid 0":              {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, own: v1.SecurityContext{RunAsUser: uid(0)}, want: "!breaks non-root policy"},
		"non-root, image runs as root": {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, image: &ImageUser{}, want: "!image will run as root"},
		"non-root, image has uid 0":    {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, image: &ImageUser{UID: uid(0)}, want: "!image will run as root"},
		"non-root, image has a uid":    {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, image: &ImageUser{UID: uid(7)}, want: "7:"},
		"non-root, image has a name":   {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, image: &ImageUser{Name: "www"}, want: "!non-numeric user (www)"},
		"non-root, image isn't known":  {own: v1.SecurityContext{RunAsNonRoot: ptr.To(true)}, want: "!isn't known"},
		"the container allows root":    {pod: v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, own: v1.SecurityContext{RunAsNonRoot: ptr.To(false), RunAsUser: uid(0)}, want: "0:"},
	} {
		pod := webPod()
		pod.Spec.SecurityContext = &c.pod
		sc, err := containerSecurityContext(&ContainerInput{Pod: pod, Container: &v1.Container{SecurityContext: &c.own}, ImageUser: c.image})
		if text, wanted := strings.CutPrefix(c.want, "!"); wanted {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %v, want one with %q", name, err, text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := userText(sc); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestImageUserOf(t *testing.T) {
	for name, c := range map[string]struct {
		image *runtimeapi.Image
		want  *ImageUser
	}{
		"uid":  {&runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 7}, Username: "www"}, &ImageUser{UID: ptr.To[int64](7)}},
		"name": {&runtimeapi.Image{Username: "www"}, &ImageUser{Name: "www"}},
		"none": {&runtimeapi.Image{}, &ImageUser{UID: ptr.To[int64](0)}},
	} {
		if diff := cmp.Diff(c.want, ImageUserOf(c.image)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// userText is "user:group", where the user is a number or a name, and either may be absent.
func userText(sc *runtimeapi.LinuxContainerSecurityContext) string {
	text := sc.GetRunAsUsername()
	if sc.GetRunAsUser() != nil {
		text += strconv.FormatInt(sc.GetRunAsUser().GetValue(), 10)
	}
	text += ":"
	if sc.GetRunAsGroup() != nil {
		text += strconv.FormatInt(sc.GetRunAsGroup().GetValue(), 10)
	}
	return text
}

// TestExtraGroups: the processes of a container have the groups of the pod's volumes, also without a security context.
func TestExtraGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		has  *v1.PodSecurityContext
		want []int64
	}{
		"no security context": {nil, []int64{5, 6}},
		"groups":              {&v1.PodSecurityContext{FSGroup: ptr.To[int64](1), SupplementalGroups: []int64{6, 2}}, []int64{1, 6, 2, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: tc.has}}
			sc, err := containerSecurityContext(&ContainerInput{Pod: pod, Container: &v1.Container{}, ExtraGroups: []int64{5, 6}})
			if err != nil || !slices.Equal(sc.GetSupplementalGroups(), tc.want) {
				t.Errorf("groups %v, %v; want %v", sc.GetSupplementalGroups(), err, tc.want)
			}
		})
	}
}
