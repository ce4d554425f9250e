package pulls

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/podstream/podstream/test/pullchecks/wire"
)

// side is one of the implementations.
type side interface {
	do(r wire.Request) (mustPull bool, err error)
}

// kubelet is the kubelet's pull manager. Its list is a round of the image garbage collector.
type kubelet struct {
	manager *pullmanager.PullManager
	runtime images
}

// images is the runtime's image service.
type images struct {
	kubecontainer.ImageService
	list []wire.Image
}

func (i *images) ListImages(context.Context) (out []kubecontainer.Image, err error) {
	for _, image := range i.list {
		out = append(out, kubecontainer.Image{ID: image.ID, RepoTags: image.Names})
	}
	return out, nil
}

func (k *kubelet) do(r wire.Request) (mustPull bool, err error) {
	ctx := context.Background()
	switch r.Op {
	case wire.Start:
		policy, err := pullmanager.NewImagePullCredentialVerificationPolicy(kubeletconfig.ImagePullCredentialsVerificationPolicy(r.Policy), r.Allowlist)
		if err != nil {
			return false, err
		}
		files, err := pullmanager.NewFSPullRecordsAccessor(r.Dir)
		if err != nil {
			return false, err
		}
		k.runtime.list = r.Images
		// The files are damaged behind its back, so there is no cache.
		k.manager, err = pullmanager.NewImagePullManager(ctx, files, policy, &k.runtime, 10)
		return false, err
	case wire.Intend:
		return false, k.manager.RecordPullIntent(r.Image)
	case wire.Pulled:
		creds := &kubeletconfig.ImagePullCredentials{}
		secrets, account := origins(r.Logins)
		if account != nil {
			creds.KubernetesServiceAccounts = append(creds.KubernetesServiceAccounts, *account)
		}
		creds.KubernetesSecrets, creds.NodePodsAccessible = secrets, len(secrets) == 0 && account == nil
		k.manager.RecordImagePulled(ctx, r.Image, r.ID, creds)
	case wire.Failed:
		k.manager.RecordImagePullFailed(ctx, r.Image)
	case wire.Check:
		return k.manager.MustAttemptImagePull(ctx, r.Image, r.ID, func() ([]kubeletconfig.ImagePullSecret, *kubeletconfig.ImagePullServiceAccount, error) {
			secrets, account := origins(r.Logins)
			return secrets, account, nil
		})
	case wire.List:
		var ids []string
		for _, image := range r.Images {
			ids = append(ids, image.ID)
		}
		k.manager.PruneUnknownRecords(ctx, ids, time.Now().Add(time.Hour))
	}
	return false, nil
}

// origins returns the pull secrets, and the first service account, as the kubelet's image manager does.
func origins(logins []wire.Login) (secrets []kubeletconfig.ImagePullSecret, account *kubeletconfig.ImagePullServiceAccount) {
	for _, l := range logins {
		switch {
		case l.Secret != nil:
			s := l.Secret
			secrets = append(secrets, kubeletconfig.ImagePullSecret{UID: s.UID, Namespace: s.Namespace, Name: s.Name, CredentialHash: s.Hash})
		case l.Account != nil && account == nil:
			a := l.Account
			account = &kubeletconfig.ImagePullServiceAccount{UID: a.UID, Namespace: a.Namespace, Name: a.Name}
		}
	}
	return secrets, account
}

// podexecd is the process pullchecks.
type podexecd struct {
	cmd     *exec.Cmd
	in      *json.Encoder
	out     *json.Decoder
	close   func() error
	stderr  bytes.Buffer
	program string
}

func startPodexecd(dir string) (*podexecd, error) {
	p := &podexecd{program: filepath.Join(dir, "pullchecks")}
	build := exec.Command("go", "build", "-o", p.program, "./test/pullchecks")
	build.Dir = filepath.Join("..", "..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build pullchecks: %w\n%s", err, output)
	}
	p.cmd = exec.Command(p.program)
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out, p.close = json.NewEncoder(in), json.NewDecoder(out), in.Close
	return p, p.cmd.Start()
}

func (p *podexecd) do(r wire.Request) (mustPull bool, err error) {
	if err := p.in.Encode(r); err != nil {
		return false, fmt.Errorf("%w\n%s", err, &p.stderr)
	}
	var answer wire.Answer
	if err := p.out.Decode(&answer); err != nil {
		return false, fmt.Errorf("%w\n%s", err, &p.stderr)
	}
	if answer.Error != "" {
		return false, fmt.Errorf("%s: %s", r.Op, answer.Error)
	}
	if r.Op == wire.Start {
		// Its first listing follows a start; the kubelet lists the images in its start.
		return p.do(wire.Request{Op: wire.List, Images: r.Images})
	}
	return answer.MustPull, nil
}

func (p *podexecd) stop() error {
	if err := p.close(); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// records reads the records of a side, by image ID: what the entries of repositories give access to. A damaged file gives
// none, as an empty record.
func records(dir string) (map[string]map[string]string, error) {
	dir = filepath.Join(dir, "image_manager", "pulled")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		var record struct {
			ImageRef          string
			CredentialMapping map[string]json.RawMessage
		}
		if json.Unmarshal(data, &record) != nil {
			record.ImageRef = damagedID(entry.Name())
		}
		has := map[string]string{} // Nothing was decoded of a damaged file.
		for repository, creds := range record.CredentialMapping {
			if string(creds) != "{}" {
				has[repository] = string(creds)
			}
		}
		out[record.ImageRef] = has
	}
	return out, nil
}
