package userns

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestSubordinate(t *testing.T) {
	for name, tc := range map[string]struct {
		uids, gids string
		want       Range
		err        string
	}{
		"no files":           {uids: "-", gids: "-"},
		"nothing for him":    {uids: "root:100000:65536\n", gids: "# kubelet\nkubelets:1:2\n"},
		"his among others'":  {uids: "a:1:2\nkubelet:65536:7208960\nb:x\n", gids: "kubelet:65536:7208960", want: Range{65536, 7208960}},
		"users only":         {uids: "kubelet:65536:65536\n", gids: "-", err: "the same IDs"},
		"different ones":     {uids: "kubelet:65536:65536\n", gids: "kubelet:65536:131072\n", err: "the same IDs"},
		"more than one":      {uids: "kubelet:65536:65536\nkubelet:200000:65536\n", gids: "", err: "subuid:2: kubelet has more than one range"},
		"no numbers":         {uids: "\nkubelet:a:65536\n", gids: "", err: "subuid:2: the first ID"},
		"too high":           {uids: "", gids: "kubelet:65536:4294967296\n", err: "subgid:1: the number of IDs"},
		"something else":     {uids: "kubelet:65536\n", gids: "", err: "subuid:1: want user:first:number"},
		"not a file of text": {uids: strings.Repeat("x", 1<<17), gids: "", err: "read "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			uids, gids := filepath.Join(dir, "subuid"), filepath.Join(dir, "subgid")
			for path, text := range map[string]string{uids: tc.uids, gids: tc.gids} {
				if text != "-" {
					write(t, path, text)
				}
			}
			got, err := Subordinate(uids, gids, Owner)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%+v, %v; want %+v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}
