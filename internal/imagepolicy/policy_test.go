package imagepolicy

import (
	"errors"
	"testing"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// TestVerifies: which images each policy exempts from verification.
func TestVerifies(t *testing.T) {
	list := []string{"registry.example/team/app", "registry.example/open/*", "docker.io/library/nginx", "localhost:5000/*", "[fd00::1]:5000/app"}
	for _, tc := range []struct {
		policy                 kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy
		list                   []string
		repository             string
		ifPulled, ifNotByAgent bool
	}{
		{"", nil, "registry.example/team/app", true, false},
		{NeverVerifyPreloadedImages, nil, "registry.example/team/app", true, false},
		{NeverVerify, nil, "registry.example/team/app", false, false},
		{AlwaysVerify, nil, "registry.example/team/app", true, true},
		{NeverVerifyAllowlistedImages, nil, "registry.example/team/app", true, true},
		{NeverVerifyAllowlistedImages, list, "registry.example/team/app", false, false},
		{NeverVerifyAllowlistedImages, list, "registry.example/team/app2", true, true},
		{NeverVerifyAllowlistedImages, list, "registry.example/team/app/part", true, true},
		{NeverVerifyAllowlistedImages, list, "registry.example/open/any/thing", false, false},
		{NeverVerifyAllowlistedImages, list, "registry.example/opened", true, true},
		{NeverVerifyAllowlistedImages, list, "docker.io/library/nginx", false, false},
		{NeverVerifyAllowlistedImages, list, "localhost:5000/app", false, false},
		{NeverVerifyAllowlistedImages, list, "[fd00::1]:5000/app", false, false},
	} {
		p, err := New(tc.policy, tc.list)
		if err != nil {
			t.Fatal(err)
		}
		if pulled, other := p.Verifies(tc.repository, true), p.Verifies(tc.repository, false); pulled != tc.ifPulled || other != tc.ifNotByAgent {
			t.Errorf("%s, %s: %t if it was pulled, else %t; want %t and %t", tc.policy, tc.repository, pulled, other, tc.ifPulled, tc.ifNotByAgent)
		}
	}
	if zero := (Policy{}); !zero.Verifies("a.io/b", true) || zero.Verifies("a.io/b", false) {
		t.Error("the zero policy isn't the default")
	}
}

// TestInvalid: a setting that isn't understood is an error.
func TestInvalid(t *testing.T) {
	for _, tc := range []struct {
		policy kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy
		list   []string
		want   error
	}{
		{"Never", nil, ErrPolicy},
		{"neververify", nil, ErrPolicy},
		{NeverVerify, []string{"test.io/app"}, ErrAllowlist},
		{NeverVerifyPreloadedImages, []string{"test.io/app"}, ErrAllowlist},
		{"", []string{"test.io/app"}, ErrAllowlist},
		{NeverVerifyAllowlistedImages, []string{"image.repo/pokus*/imagename"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"image.repo/pokus*"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"image.repo/*/imagename"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"image.repo/*/*"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"/*"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"*"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"image.repo/"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{""}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"test.io/app:tag"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"test.io/app@sha256:38a8906435c4dd5f4258899d46621bfd8eea3ad6ff494ee3c2f17ef0321625bd"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"test.io/app "}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{" test.io/*"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"nginx"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"docker.io/nginx"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"index.docker.io/library/nginx"}, ErrPattern},
		{NeverVerifyAllowlistedImages, []string{"test.io/App"}, ErrPattern},
	} {
		if _, err := New(tc.policy, tc.list); !errors.Is(err, tc.want) {
			t.Errorf("%s %q: %v; want %v", tc.policy, tc.list, err, tc.want)
		}
	}
}
