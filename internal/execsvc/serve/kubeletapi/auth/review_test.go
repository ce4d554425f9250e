package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Answers are cached, positive ones for longer. Failures aren't cached.
func TestAnswersAreRemembered(t *testing.T) {
	s := newSetup(t, func(c *Config) { c.AlwaysAllow, c.AccessReviews = true, nil })
	want := func(when, token string, status1, reviews int) {
		t.Helper()
		if got := status(s.Auth, ask(http.MethodGet, "/pods", token)); got != status1 {
			t.Errorf("%s: %d; want %d", when, got, status1)
		}
		if got, _ := s.api.counts(); got != reviews {
			t.Errorf("%s: asked %d times; want %d", when, got, reviews)
		}
	}
	pass := func(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }
	want("first", "good", 200, 1)
	want("again", "good", 200, 1)
	pass(tokenTTL)
	want("just within", "good", 200, 1)
	pass(time.Second)
	want("too old", "good", 200, 2)
	want("bad", "bad", 401, 3)
	want("bad again", "bad", 401, 3)
	pass(badTokenTTL + time.Second)
	want("bad, later", "bad", 401, 4)

	s.api.token = func(string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, errors.New("connection refused")
	}
	want("known while the API server is away", "good", 200, 4)
	want("unknown while it is away", "other", 401, 5)
	want("still unknown", "other", 401, 6)
}

// Guessed tokens don't evict known ones from the cache.
func TestGuessesAreDroppedFirst(t *testing.T) {
	s := newSetup(t, nil)
	s.Check(ask(http.MethodGet, "/pods", "good"))
	for i := range 2 * maxAnswers {
		s.Check(ask(http.MethodGet, "/pods", fmt.Sprint("guess-", i)))
	}
	before, _ := s.api.counts()
	s.Check(ask(http.MethodGet, "/pods", "good"))
	if after, _ := s.api.counts(); after != before {
		t.Error("the good token is no longer cached")
	}
	if n := len(s.tokens.answers.bad.Keys()); n > maxAnswers {
		t.Errorf("%d guesses are remembered; want %d at most", n, maxAnswers)
	}
}

// Equal concurrent requests share one review. The number of different concurrent reviews is limited.
func TestReviewsUnderWay(t *testing.T) {
	s := newSetup(t, func(c *Config) { c.AlwaysAllow, c.AccessReviews = true, nil })
	began, let := make(chan struct{}, 1000), make(chan struct{})
	s.api.token = func(string) (authenticationv1.TokenReviewStatus, error) {
		began <- struct{}{}
		<-let
		return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "x"}}, nil
	}
	var wg sync.WaitGroup
	got := make(chan int, 1000)
	from := func(address, token string) {
		wg.Go(func() {
			r := ask(http.MethodGet, "/pods", token)
			r.RemoteAddr = address
			got <- status(s.Auth, r)
		})
	}
	for i := range maxReviewsOfNetwork {
		from(fmt.Sprintf("[2001:db8::%x]:1", i), fmt.Sprint("token-", i)) // One subscriber has all of these.
	}
	for range maxReviewsOfNetwork {
		<-began
	}
	from("[2001:db8::ffff]:2", "one more")
	if code := <-got; code != http.StatusTooManyRequests {
		t.Errorf("one more of this peer's: %d; want 429", code)
	}
	from("192.0.2.2:1", "another's")
	<-began
	for range 50 {
		from("192.0.2.2:1", "another's")
	}
	close(let)
	wg.Wait()
	close(got)
	for code := range got {
		if code != http.StatusOK {
			t.Errorf("%d; want 200", code)
		}
	}
	if places, holders := s.tokens.turns.tokens.Taken(); places != 0 || holders != 0 {
		t.Errorf("%d turns of %d holders are left", places, holders)
	}
}

// A caller that disconnects doesn't affect the answer of other callers that wait for the same review.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		a, turns := newAnswers[int]("test", time.Minute, time.Minute, clock.RealClock{}, logger), newTurns()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := a.get(ctx, turns.ofStranger("a"), digest{}, func(ctx context.Context) (int, bool, error) {
				<-ctx.Done()
				return 0, false, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that disconnected: %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				got, err := a.get(t.Context(), turns.ofStranger("b"), digest{}, func(context.Context) (int, bool, error) { return 7, true, nil })
				if got != 7 || err != nil {
					t.Errorf("who stayed: %d, %v; want 7", got, err)
				}
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
}

// With client-go's client: it sends what the API server expects, and a 500 isn't an answer.
func TestWithARealClient(t *testing.T) {
	down := false
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, body string) {
		if down {
			http.Error(w, "etcd is away", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"sa","groups":["g"],`+
			`"extra":{"authentication.kubernetes.io/pod-name":["p"]}}}}`)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{
		NodeName: "node-1", TokenReviews: client.AuthenticationV1().TokenReviews(), AccessReviews: client.AuthorizationV1().SubjectAccessReviews(),
	})
	if err != nil {
		t.Fatal(err)
	}
	user, refusal := a.Check(ask(http.MethodGet, "/pods", "token"))
	if refusal != nil {
		t.Fatal(refusal.Err)
	}
	want := &User{Name: "sa", Groups: []string{"g", authenticated}, Extra: map[string][]string{"authentication.kubernetes.io/pod-name": {"p"}}}
	if diff := cmp.Diff(want, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	down = true
	if got := status(a, ask(http.MethodGet, "/pods", "other")); got != http.StatusUnauthorized {
		t.Errorf("an unknown token while the API server fails: %d; want 401", got)
	}
	if got := status(a, ask(http.MethodGet, "/metrics", "token")); got != http.StatusInternalServerError {
		t.Errorf("an unknown right while the API server fails: %d; want 500", got)
	}
	client.AuthenticationV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
}
