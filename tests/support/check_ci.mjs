// SPDX-License-Identifier: Apache-2.0
// usage: node check_ci.mjs PACKAGES gitlab FILE | github FILE | yaml FILE
//
// Compares a CI file with its system's schema, or reads any YAML, of the npm packages in PACKAGES (package.json beside this file names them).
// Prints what is wrong and exits with 1; with 3 when the packages are missing.
import {existsSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const EXIT_WRONG = 1;
const EXIT_MISSING = 3;
const [packages, system, file] = process.argv.slice(2);
const require = createRequire(join(packages, 'node_modules', 'x.js'));

/** GitLab publishes its schema; gitlab-ci-local carries a copy. */
async function checkGitlab(text) {
    const path = join(packages, 'node_modules', 'gitlab-ci-local', 'src', 'schema', 'schema.js');
    if (!existsSync(path)) return null;
    const {schema} = await import(pathToFileURL(path));
    const Ajv = require('ajv').default;
    // Their schema uses words of editors ("markdownDescription"), which are no rules.
    const validate = new Ajv({strict: false, allErrors: true, validateFormats: false}).compile(schema);
    if (validate(require('js-yaml').load(text))) return [];
    return validate.errors.map((error) => `${error.instancePath || '/'} ${error.message}`);
}

async function checkGithub(text) {
    if (!existsSync(join(packages, 'node_modules', '@action-validator', 'core'))) return null;
    const {validateWorkflow} = require('@action-validator/core');
    const {errors} = validateWorkflow(text);
    const described = (error) => (error.states || []).flatMap((state) => state.errors).flatMap(described).concat(
        error.states ? [] : [`${error.path || '/'} ${error.detail || error.title}`]);
    return errors.flatMap(described);
}

/** Every document of the file. */
async function checkYaml(text) {
    if (!existsSync(join(packages, 'node_modules', 'js-yaml'))) return null;
    try {
        require('js-yaml').loadAll(text);
        return [];
    } catch (error) {
        return [error.message];
    }
}

const problems = await {gitlab: checkGitlab, github: checkGithub, yaml: checkYaml}[system](readFileSync(file, 'utf8'));
if (problems === null) process.exit(EXIT_MISSING);
for (const problem of problems) console.log(`${file}: ${problem}`);
process.exit(problems.length === 0 ? 0 : EXIT_WRONG);
