package sidebyside

// row says how a command of kubectl, crictl or podman is compared with podctl's in the same row of docs/podctl.md.
type row struct {
	// compare compares the answers. The exit codes must be equal in any case.
	compare comparison
	// there and here are flags that are added to the commands, where the documented ones need another namespace.
	there, here []string
	// before is run before both. Nil: nothing is.
	before func(*sides)
	// how says how both commands are run.
	how manner
	// after returns what must be equal once a user has run the command. Nil: nothing.
	after func(*user) string
	// hereFirst is set if podctl runs first, because the other command removes what podctl shows.
	hereFirst bool
	// differs is the reason why the answers differ in the rest. They must.
	differs string
	// codes are the exit codes there and here. Nil: equal ones.
	codes []int
	// lags is set if the API server may have the answer a moment later: until then the row is repeated.
	lags bool
	// anyCode is set if the exit codes mean different things.
	anyCode bool
	// unrun is the reason why the row isn't run.
	unrun string
}

// Namespaces of the commands.
var (
	all     = []string{"-A"}
	ofShop  = []string{"-n", "shop"}
	ofThere = []string{"-n", "there"}
	ofHere  = []string{"-n", "here"}
)

const goesOn = "the columns differ: podctl has a line for each change of a status"

// kubectlRows are the commands of kubectl.
var kubectlRows = map[string]row{
	"kubectl get pods -A":                                                     {lags: true, compare: inOrder("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS")},
	"kubectl get pods -A -o wide":                                             {lags: true, compare: inOrder("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "IP", "NODE")},
	"kubectl get pods -n shop":                                                {lags: true, compare: inOrder("NAME", "READY", "STATUS", "RESTARTS")},
	"kubectl get pods -l app=web":                                             {lags: true, there: all, compare: inOrder("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS")},
	"kubectl get pods --show-labels":                                          {lags: true, there: all, compare: inOrder("NAMESPACE", "NAME", "LABELS")},
	"kubectl get pods --field-selector status.phase=Running":                  {lags: true, there: all, compare: inOrder("NAMESPACE", "NAME", "STATUS")},
	"kubectl get pods --sort-by=.status.startTime":                            {lags: true, there: all, compare: inOrder("NAMESPACE", "NAME", "STATUS")},
	"kubectl get pods -o name":                                                {lags: true, there: all, compare: sameText},
	"kubectl get pods -o jsonpath={.items[*].status.podIP}":                   {lags: true, there: all, compare: sameText},
	"kubectl get pods -o custom-columns=NAME:.metadata.name,IP:.status.podIP": {lags: true, there: all, compare: sameText},
	"kubectl get pod web -o yaml":                                             {lags: true, compare: samePod},
	"kubectl get pods -w":                                                     {how: manner{until: "web"}, compare: has("web"), differs: goesOn},
	"kubectl describe pod web": {
		compare: same(find(`(?m)^\s*((?:Name|Namespace|Status|IP|Image|Restart Count):\s+\S+|Ready:\s+(?:True|False)\s)`)), differs: "the layout is podctl's own"},
	"kubectl logs web -c app":                                  {compare: sameText},
	"kubectl logs -f --tail=20 web":                            {how: manner{until: "hello"}, compare: sameText},
	"kubectl logs -p web":                                      {compare: sameText},
	"kubectl logs --since=1h --timestamps web":                 {compare: sameText},
	"kubectl logs --all-containers --prefix web":               {compare: sameLines},
	"kubectl logs -f -l app=web --prefix":                      {how: manner{until: "hello"}, compare: has("[pod/web/app] hello\n")},
	"kubectl logs web":                                         {compare: sameText},
	"kubectl events --for pod/web":                             {lags: true, compare: same(columns("TYPE", "REASON"))},
	"kubectl events -w --types=Warning":                        {how: manner{until: "Unhealthy"}, compare: has("Warning")},
	"kubectl exec -it web -- sh":                               {how: manner{stdin: "echo typed\nexit 3\n"}, compare: sameText},
	"kubectl exec web -c app -- date":                          {compare: sameText},
	"kubectl exec -i db -- psql":                               {how: manner{stdin: "select 1"}, compare: sameText},
	"kubectl attach -it web":                                   {how: manner{stdin: "typed\n", until: "typed"}, compare: has("typed")},
	"kubectl cp web:/etc/app.conf app.conf":                    {compare: sameFile("app.conf")},
	"kubectl cp ./data web:/srv -c app":                        {after: copied, compare: sameCode},
	"kubectl port-forward web 8080:80":                         {how: forwarded, compare: sameDuring},
	"kubectl top pods":                                         {unrun: "the API server has no metrics server; TestKubectlTop of package usage reads its data"},
	"kubectl wait --for=condition=Ready pod/web --timeout=60s": {compare: sameText},
	"kubectl diff -f web.yaml":                                 {compare: has("web"), differs: "podctl shows the pods that are added, changed or removed, and why; kubectl the lines of objects"},
	"kubectl apply -f web.yaml":                                {compare: sameText},
	"kubectl wait --for=condition=Ready pod/web":               {there: ofThere, compare: sameCode, differs: "podctl applies and waits in one command"},
	"kubectl apply --dry-run=server -f web.yaml":               {compare: sameText},
	"kubectl apply --prune -l app=shop -f shop/":               {before: appliedShop, compare: sameText},
	"kubectl apply -f https://example.com/web.yaml":            {compare: sameText},
	"kubectl delete pod web":                                   {there: ofThere, here: ofHere, after: deleted, compare: has(`pod "web" deleted from `)},
	"kubectl delete -f web.yaml":                               {before: appliedWeb, after: deleted, compare: has(`pod "web" deleted from `)},
	"kubectl edit pod web": {before: appliedWeb, there: ofThere, here: ofHere, after: edited, compare: sameCode,
		differs: "podctl shows what the edit changes"},
	"kubectl get cm,secrets -n shop":    {compare: has("settings"), differs: "podctl has the versions that pods use"},
	"kubectl describe node":             {anyCode: true, compare: same(find(`containerd(?:://| )(\d\S+)`)), differs: "it describes the node; podctl looks for faults of it"},
	"kubectl version":                   {compare: sameCode, differs: "each has the versions of its own programs"},
	"kubectl --context node-2 get pods": {there: ofShop, here: ofShop, compare: inOrder("NAME", "READY", "STATUS")},
	"kubectl config use-context node-2": {compare: sameText},
	"kubectl config get-contexts":       {compare: same(find(`(?m)^\*\s+(\S+)`)), differs: "contexts have other fields"},
	"kubectl completion bash":           {compare: has("complete -o default -F __start_"), differs: "each completes its own name"},
}

// crictlRows are the commands of crictl.
var crictlRows = map[string]row{
	"crictl pods":                    {compare: same(columns("NAME", "NAMESPACE"))},
	"crictl ps":                      {compare: each(prefixes(12, columns("CONTAINER")), prefixes(12, columns("CONTAINER ID")))},
	"crictl ps -a":                   {compare: contains(prefixes(12, columns("CONTAINER")), prefixes(12, columns("CONTAINER ID"))), differs: "crictl shows earlier runs of a container too"},
	"crictl ps -q":                   {compare: same(prefixes(12, words))},
	"crictl ps -p ID":                {compare: each(prefixes(12, columns("CONTAINER")), prefixes(12, columns("CONTAINER ID")))},
	"crictl logs -p ID":              {compare: sameText},
	"crictl attach -it ID":           {how: manner{stdin: "typed\n", until: "typed"}, compare: has("typed")},
	"crictl port-forward ID 8080:80": {how: forwarded, compare: sameDuring},
	"crictl stats":                   {compare: sameCode, differs: "crictl has a line for each container, podctl for each pod"},
	"crictl images":                  {compare: each(prefixes(12, columns("IMAGE ID")), prefixes(12, columns("IMAGE ID")))},
	"crictl pull IMAGE":              {compare: same(find(`(sha256:[0-9a-f]{64})`))},
	"crictl rmi --prune":             {hereFirst: true, codes: []int{0, 1}, compare: has("library/nginx"), differs: "podctl asks first, and shows sizes"},
	"crictl info":                    {unrun: "it prints the runtime's configuration; podctl doctor looks for faults of the node"},
	"crictl version":                 {compare: same(find(`(?:RuntimeVersion:\s+|containerd )v?(\d\S+)`)), differs: "podctl has the versions of the daemons too"},
}
