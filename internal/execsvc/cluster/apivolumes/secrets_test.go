package apivolumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) secret(data map[string][]byte) {
	w.set(func() {
		w.objects["secrets/key"] = &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key", UID: "s"}, Data: data}
	})
}

// TestSecret: each call reads the Secret, so that a changed one is used at once.
func TestSecret(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, value := range []string{"first", "second"} {
			w.secret(map[string][]byte{"user": []byte("u"), "password": []byte(value)})
			got, err := w.Secret(t.Context(), "default", "key")
			if want := map[string]string{"user": "u", "password": value}; err != nil || !maps.Equal(got, want) {
				t.Errorf("the Secret is %v, %v; want %v", got, err, want)
			}
		}
		if _, reads := w.taken(); reads["secrets/key"] != 2 {
			t.Errorf("the reads are %v", reads)
		}
	})
}

// TestSecretErrors: errors say what is wrong, and have no values.
func TestSecretErrors(t *testing.T) {
	const hidden = "hunter2"
	for name, tc := range map[string]struct {
		object any
		away   bool
		want   string
	}{
		"missing":           {want: "not found"},
		"away":              {away: true, want: "connection refused"},
		"another namespace": {object: &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "key", UID: "s"}}, want: "another object"},
		"not a Secret":      {object: hidden, want: "can't be read"},
		"wrong types":       {object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": hidden}}, want: "can't be read"},
		"not UTF-8": {
			object: &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key", UID: "s"}, Data: map[string][]byte{"a": []byte(hidden + "\xff")}},
			want:   "UTF-8",
		},
		"too large": {
			object: &v1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key", UID: "s"},
				Data:       map[string][]byte{"a": []byte(strings.Repeat(hidden, v1.MaxSecretSize/len(hidden)+1))},
			},
			want: "more than",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.set(func() { w.objects["secrets/key"], w.away = tc.object, tc.away })
				got, err := w.Secret(t.Context(), "default", "key")
				if err == nil || !strings.HasPrefix(err.Error(), "failed to find the secret key in the namespace default") || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%v, %v; want %q", got, err, tc.want)
				}
				if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, hidden) {
					t.Errorf("the error has the value: %s", text)
				}
				if tc.want == "not found" && !apierrors.IsNotFound(err) {
					t.Errorf("%v isn't NotFound", err)
				}
			})
		})
	}
}

// TestSecretHangs: the read ends within its time limit, and when its caller's context ends.
func TestSecretHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.set(func() { w.hangs = true })
		began := time.Now()
		if _, err := w.Secret(t.Context(), "default", "key"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != secretTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for range maxReads {
			go func() { _, _ = w.Secret(t.Context(), "default", "key") }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := w.Secret(ctx, "default", "key"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("with all places taken, after %v: %v", time.Since(began), err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.most > maxReads {
			t.Errorf("%d reads at a time", w.most)
		}
	})
}
