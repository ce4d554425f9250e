package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// podctl shows an inspector everything except secrets; it also shows secrets to a consumer.
func TestG8InspectorsSeeNoSecrets(t *testing.T) {
	t.Parallel()
	e := newExposed(t)
	check(t, e.put("file", "web.yaml", `
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"password":"hush1"}'}
spec:
  initContainers:
  - {name: first, image: first-image, args: [hush2], env: [{name: PASSWORD, value: hush3}]}
  containers:
  - name: main
    image: main-image
    command: [/bin/main, --token=hush4]
    args: [hush5]
    env: [{name: TOKEN, value: hush6}]
    livenessProbe: {httpGet: {port: 80, path: "/?key=hush7", httpHeaders: [{name: Authorization, value: hush8}]}}
    readinessProbe: {exec: {command: [probe, hush9]}}
`))
	until(t, patience, "the pod is served", func() error {
		resp, err := listReferences(t.Context(), e.local)
		if err == nil && len(resp.GetPods()) == 0 {
			err = errors.New("there is no pod")
		}
		return err
	})
	for _, name := range []string{"looker", "agent"} {
		files := e.clientFiles(e.ca, name)
		podctl := func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, filepath.Join(nodes.BinDir, "podctl"), append([]string{"--podconfig-endpoint", "tcp://" + e.tcp,
				"--tls-cert-file", files.CertFile, "--tls-private-key-file", files.KeyFile, "--tls-ca-file", files.CAFile}, args...)...)
		}
		for _, args := range [][]string{{"pods"}, {"pods", "-o", "wide"}, {"pods", "-o", "yaml"}, {"pods", "-o", "json"}} {
			// There is no podexecd, so the exit code is 1.
			out, _ := podctl(t.Context(), args...).Output()
			seesSecrets(t, name, args, string(out), name == "agent" && (args[len(args)-1] == "yaml" || args[len(args)-1] == "json"))
		}
		for _, args := range [][]string{
			{"watch", "-o", "wide"}, {"watch", "-o", "yaml"}, {"watch", "-o", "json"}, {"watch", "-o", "yaml", "--mode", "snapshot"},
		} {
			ctx, stop := context.WithTimeout(t.Context(), patience)
			cmd := podctl(ctx, args...)
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			var text strings.Builder
			for lines := bufio.NewScanner(out); !strings.Contains(strings.ToLower(text.String()), "synced") && lines.Scan(); {
				text.WriteString(lines.Text() + "\n")
			}
			stop()
			_ = cmd.Wait()
			seesSecrets(t, name, args, text.String(), name == "agent" && args[2] != "wide")
		}
	}
	_, err := e.identified("looker", "127.0.0.1").DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{})
	refusal(t, "an inspector's DiffManifests", err, codes.PermissionDenied,
		"CN=looker is inspector; /podconfig.v1.PodConfigService/DiffManifests is for the role consumer")
}

// seesSecrets checks that podctl's output has all secrets, or none.
func seesSecrets(t *testing.T, who string, args []string, out string, want bool) {
	t.Helper()
	for i := 1; i <= 9; i++ {
		if secret := fmt.Sprint("hush", i); strings.Contains(out, secret) != want {
			t.Errorf("podctl %v shows %s the secret %s: %v; want %v", args, who, secret, !want, want)
		}
	}
	if !strings.Contains(out, "web-n") {
		t.Errorf("podctl %v doesn't show %s the pod:\n%s", args, who, out)
	}
}
