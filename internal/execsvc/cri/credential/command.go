package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// The limits of a plugin's output, in bytes: of its answer, and of its errors in messages.
const (
	maxAnswer    = 1 << 20
	maxComplaint = 512
)

// command is the command line of a plugin.
type command struct {
	path       string
	args, env  []string
	apiVersion string
	timeout    time.Duration
}

// run runs the plugin: it writes the request to standard input and reads the answer from standard output.
func (c command) run(ctx context.Context, r pluginv1.CredentialProviderRequest) (*pluginv1.CredentialProviderResponse, error) {
	r.TypeMeta = metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: c.apiVersion}
	request, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, c.path, c.args...)
	stdout, stderr := &head{limit: maxAnswer + 1}, &head{limit: maxComplaint}
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env, bytes.NewReader(append(request, '\n')), stdout, stderr
	// Its child processes are killed with it. One that survives otherwise keeps the pipes open for WaitDelay only.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch complaint := strings.TrimSpace(string(stderr.kept)); {
	case limited.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("run %s: no answer within %s", c.path, c.timeout)
	case err != nil && complaint != "":
		return nil, fmt.Errorf("run %s: %w: %s", c.path, err, complaint)
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", c.path, err)
	case len(stdout.kept) > maxAnswer:
		return nil, fmt.Errorf("run %s: the answer is larger than %d bytes", c.path, maxAnswer)
	}
	return c.decode(stdout.kept)
}

// decode decodes an answer. Its errors don't quote the answer, which may have a password.
func (c command) decode(data []byte) (*pluginv1.CredentialProviderResponse, error) {
	var response pluginv1.CredentialProviderResponse
	if json.Unmarshal(data, &response) != nil {
		return nil, errors.New("the answer is no CredentialProviderResponse")
	}
	if response.Kind != "CredentialProviderResponse" || response.APIVersion != c.apiVersion {
		return nil, fmt.Errorf("the answer must be a CredentialProviderResponse of %s", c.apiVersion)
	}
	return &response, nil
}

// head keeps the first bytes that are written to it.
type head struct {
	kept  []byte
	limit int
}

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	return len(p), nil
}
