package image

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// TestAwaitedSecrets: an image isn't requested before the pod's pull secrets have arrived, and is requested without them
// if they take too long. Only what doesn't arrive is reported.
func TestAwaitedSecrets(t *testing.T) {
	const reported = " FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (hub, gone); attempting to pull the image may not succeed."
	k := &keys{}
	s := newSim(t, Config{Credentials: k})
	one := pod("1", "sim/app:1")
	one.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "hub"}, {Name: "gone"}}
	k.lack(true, "hub", "gone")
	s.ReportSecrets(one)
	if wait := s.want(one, 0, "pulling"); wait.RetryAfter != secretsPatience || wait.Message != "waiting for image pull secrets (hub, gone)" {
		t.Errorf("%+v; want one for %v", wait, secretsPatience)
	}
	s.clock.Step(secretsPatience - time.Second)
	s.ReportSecrets(one)
	if wait := s.want(one, 0, "pulling"); wait.RetryAfter != time.Second {
		t.Errorf("after %v: %+v; want the rest of the time", secretsPatience-time.Second, wait)
	}
	if len(k.asked) > 0 || len(s.said()) > 0 {
		t.Errorf("lookups %q, events %q; want none", k.asked, s.said())
	}
	k.set("2", imageaccess.Login{Username: "me"})
	k.lack(false, "gone")
	s.want(one, 0, "pulling")
	s.wantDone(one)
	s.want(one, 0, "present")

	two := pod("2", "sim/app:2")
	two.Spec.ImagePullSecrets = one.Spec.ImagePullSecrets
	k.lack(true, "hub", "gone")
	s.want(two, 0, "pulling")
	s.clock.Step(secretsPatience)
	if s.ReportSecrets(two); !slices.Contains(s.said(), reported) {
		t.Errorf("events %q; want %q", s.said(), reported)
	}
	s.want(two, 0, "pulling")
	s.wantDone(two)
	s.want(two, 0, "present")
}

// TestMissingSecretsAreReported: at each sync of a pod, and not those of a pod without any.
func TestMissingSecretsAreReported(t *testing.T) {
	k := &keys{}
	s := newSim(t, Config{Credentials: k})
	p := pod("1", "sim/app:1")
	k.lack(false, "gone")
	s.ReportSecrets(p)
	if got := s.said(); len(got) > 0 {
		t.Errorf("without pull secrets: events %q", got)
	}
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "gone"}}
	s.ReportSecrets(p)
	s.ReportSecrets(p)
	want := " FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed. (2)"
	if got := s.said(); len(got) != 1 || got[0] != want {
		t.Errorf("events %q; want %q", got, want)
	}
	s.want(p, 0, "pulling")
}
