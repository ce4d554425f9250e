package iscsi

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func TestPortals(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:3260", "::ffff:192.0.2.1": "192.0.2.1:3260", "192.0.2.1:860": "192.0.2.1:860", "[2001:DB8::1]": "[2001:db8::1]:3260", "2001:db8::1": "[2001:db8::1]:3260",
		"[2001:db8::1]:860": "[2001:db8::1]:860", "Store.example.com": "store.example.com:3260", "store:860": "store:860",
		"": "", "-oX": "", "a/b": "", "../x": "", "a:0": "", "a:65536": "", "a:": "", "a:03260": "", "a b": "", "a,b": "", "a\n": "", "[a]": "a:3260",
		"[fe80::1%eth0]": "", "a:1:2": "", "..": "", "[]": "", "[[::1]]:1": "",
	} {
		got, err := portal(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestRefused: the fields of a volume can't be more than names.
func TestRefused(t *testing.T) {
	many := make([]string, maxPortals)
	for i := range many {
		many[i] = "192.0.2." + strconv.Itoa(i+1)
	}
	for name, change := range map[string]func(*v1.ISCSIVolumeSource){
		"no portal":               func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "" },
		"a portal is a path":      func(s *v1.ISCSIVolumeSource) { s.TargetPortal = "../../x" },
		"another is an option":    func(s *v1.ISCSIVolumeSource) { s.Portals = []string{"-u"} },
		"too many portals":        func(s *v1.ISCSIVolumeSource) { s.Portals = many },
		"no target":               func(s *v1.ISCSIVolumeSource) { s.IQN = "" },
		"a target is an option":   func(s *v1.ISCSIVolumeSource) { s.IQN = "--logoutall=all" },
		"a target is a path":      func(s *v1.ISCSIVolumeSource) { s.IQN = "iqn.2026-01.com.example:a/../../../x" },
		"a target of two lines":   func(s *v1.ISCSIVolumeSource) { s.IQN = target + "\nx" },
		"a target with a space":   func(s *v1.ISCSIVolumeSource) { s.IQN = target + " x" },
		"a long target":           func(s *v1.ISCSIVolumeSource) { s.IQN = target + strings.Repeat("x", 223) },
		"a target of another era": func(s *v1.ISCSIVolumeSource) { s.IQN = "iqn.26-01.com.example:x" },
		"a negative unit":         func(s *v1.ISCSIVolumeSource) { s.Lun = -1 },
		"a large unit":            func(s *v1.ISCSIVolumeSource) { s.Lun = 256 },
		"an iface is a path":      func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = "../x" },
		"an iface is an option":   func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = "-o" },
		"an iface of two names":   func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = "a b" },
		"a parent directory":      func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = ".." },
		"a long iface":            func(s *v1.ISCSIVolumeSource) { s.ISCSIInterface = strings.Repeat("x", 65) },
		"an initiator's option":   func(s *v1.ISCSIVolumeSource) { s.InitiatorName = ptr.To("-x") },
		"a long cloned iface": func(s *v1.ISCSIVolumeSource) {
			s.InitiatorName, s.TargetPortal = ptr.To(target), strings.Repeat("x", 60)
		},
		"a file system is a path": func(s *v1.ISCSIVolumeSource) { s.FSType = "../../tmp/x" },
		"a file system's option":  func(s *v1.ISCSIVolumeSource) { s.FSType = "-x" },
		"CHAP without a Secret":   func(s *v1.ISCSIVolumeSource) { s.SessionCHAPAuth = true },
		"a long name of all": func(s *v1.ISCSIVolumeSource) {
			s.TargetPortal, s.IQN = strings.Repeat("x", 60), target+strings.Repeat("x", 190)
		},
	} {
		s := &v1.ISCSIVolumeSource{TargetPortal: portal1, IQN: target}
		change(s)
		spec := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{ISCSI: s}}
		if v, err := Inline("/k", &v1.Pod{}, spec); err == nil {
			t.Errorf("%s is accepted: %+v", name, v)
		}
	}
}

// TestStaticPod: a static pod's Secret isn't the API server's of the same name.
func TestStaticPod(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Annotations: map[string]string{podmeta.SourceAnnotation: "file"}}}
	s := &v1.ISCSIVolumeSource{TargetPortal: portal1, IQN: target}
	spec := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{ISCSI: s}}
	if _, err := Inline("/k", pod, spec); err != nil {
		t.Error(err)
	}
	s.SessionCHAPAuth, s.SecretRef = true, &v1.LocalObjectReference{Name: "login"}
	if _, err := Inline("/k", pod, spec); err == nil {
		t.Error("it would get the Secret of the API server")
	}
	if v, err := Inline("/k", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}, spec); err != nil ||
		!strings.Contains(v.StageArgs, `"secret":{"namespace":"ns","name":"login"}`) {
		t.Errorf("%s, %v", v.StageArgs, err)
	}
}
