package usage

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// Changes of Secrets and ConfigMaps appear in the volumes of running pods, all keys at once. The environment
// doesn't change.
func TestSecretUpdated(t *testing.T) {
	s := newSpace(t)
	put := func(value string) {
		s.apply(t, `{apiVersion: v1, kind: Secret, metadata: {name: password}, stringData: {a: `+value+`, b: `+value+`}}`)
		s.apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: `+value+`}}`)
	}
	put("old")
	volumes := `terminationGracePeriodSeconds: 1, volumes: [{name: secret, secret: {secretName: password}}, {name: settings, configMap: {name: settings}}]`
	env := `, env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: password, key: a}}}], volumeMounts: [{name: secret, mountPath: /secret}, {name: settings, mountPath: /settings}]`
	s.applyPod(t, "secret", toolsImage, sample("follow", "/secret")+env, volumes)
	s.applyPod(t, "settings", toolsImage, sample("follow", "/settings")+env, volumes)
	secret, settings := s.awaitReady(t, "secret"), s.awaitReady(t, "settings")
	secretLog, settingsLog := s.begin(t, "logs", "-f", secret.Name), s.begin(t, "logs", "-f", settings.Name)
	secretLog.expect(t, `a="old" b="old"`)
	settingsLog.expect(t, `key="old"`)
	began := time.Now()
	put("new")
	said := secretLog.expect(t, `a="new" b="new"`)
	settingsLog.expect(t, `key="new"`)
	t.Logf("the change was in the pods after %.1f s", time.Since(began).Seconds())
	if strings.Contains(said, `a="new" b="old"`) || strings.Contains(said, `a="old" b="new"`) {
		t.Errorf("the keys didn't change at once: %s", said)
	}
	if got := s.kubectl(t, "exec", "secret", "--", "sh", "-c", "echo $PASSWORD"); got != "old\n" {
		t.Errorf("the environment has %q; want what was there at the start", got)
	}
}

// rotating is a pod that prints its token, and each new one. A token is valid for at least 10 minutes, and is
// renewed after 8.
const rotating = `{apiVersion: v1, kind: Pod, metadata: {name: rotating}, spec: {terminationGracePeriodSeconds: 1,
containers: [{name: main, image: "` + sampleImage + `", command: [/sample, follow, /token], volumeMounts: [{name: token, mountPath: /token}]}],
volumes: [{name: token, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 600, audience: vault}}]}}]}}`

// A service account's token exists from the start, and is replaced before it expires.
func TestTokenRotated(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten minutes; run it without -short: go test ./usage -run TestTokenRotated")
	}
	t.Parallel()
	s := newSpace(t)
	s.apply(t, rotating)
	pod := s.awaitReady(t, "rotating")
	said := s.begin(t, "logs", "-f", pod.Name).within(t, 11*time.Minute, "a second token", func(said string) bool {
		return strings.Count(said, `token="`) == 2
	})
	var tokens []string
	for _, match := range regexp.MustCompile(`token="([^"]+)"`).FindAllStringSubmatch(said, -1) {
		tokens = append(tokens, match[1])
	}
	if tokens[0] == tokens[1] {
		t.Error("the second token is the first")
	}
	for i, token := range tokens {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"vault"}}}
		status := rig.Get(s.site.Client.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{}))(t).Status
		of := status.User.Extra["authentication.kubernetes.io/pod-uid"]
		if !status.Authenticated || status.User.Username != "system:serviceaccount:"+s.name+":default" || !slices.Equal(of, []string{string(pod.UID)}) {
			t.Errorf("token %d is that of %+v", i+1, status)
		}
	}
}
